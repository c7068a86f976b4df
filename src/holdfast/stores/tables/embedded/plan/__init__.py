"""Pure decisions about what to do, made without a store: values in, values out."""
