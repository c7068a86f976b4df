"""The demo of SkyMarshal: the generated sample data and the story that runs on it."""
