"""Parts that every floor uses: element types, checks of arguments, inputs, results and progress."""
