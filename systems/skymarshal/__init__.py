"""SkyMarshal: airline disruption operations."""
