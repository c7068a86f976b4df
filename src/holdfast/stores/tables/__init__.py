"""Tables stores: one port, and the engines that implement it."""
