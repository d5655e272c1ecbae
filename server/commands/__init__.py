"""What `nonstick` can be told to do: one module per command."""
