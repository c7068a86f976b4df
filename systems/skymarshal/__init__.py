"""SkyMarshal, a system for airline disruptions: it assesses their impact and records the decisions."""
