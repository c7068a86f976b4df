"""What is to be done, decided without touching a store: values in, values out."""
