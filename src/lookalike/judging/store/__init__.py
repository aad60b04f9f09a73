"""Where votes are kept while experts judge."""
