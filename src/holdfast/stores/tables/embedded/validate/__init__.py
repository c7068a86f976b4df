"""What can be checked once the table is known and before anything is read: keys, indexes, selections."""
