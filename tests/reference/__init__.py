"""What every number means, written slowly: `definitions` enumerates every order, `formulas` counts in Fraction."""
