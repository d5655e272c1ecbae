"""The patterns and texts every assistant has from the start, as data."""
