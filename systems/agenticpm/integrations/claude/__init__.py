"""The Claude writer: prompt data, allowed wording and the writer."""
