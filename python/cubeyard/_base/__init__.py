"""Building blocks for every layer: element types, argument checks, inputs, results and progress bars."""
