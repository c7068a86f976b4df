"""What `holdfast demo` tells: one module per story."""
