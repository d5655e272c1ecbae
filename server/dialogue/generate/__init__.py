"""From what the user wrote to commands: by keywords, or by a language model."""
