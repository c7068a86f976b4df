"""Pure decisions about the changes to make, without a store: values in, values out."""
