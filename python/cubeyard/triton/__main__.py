"""`python -m cubeyard.triton`: prints the table of operations."""

from cubeyard.triton._table import table

if __name__ == "__main__":
    print(table(), end="")
