"""What every room uses: codes, files, locks, progress, and the compiled loops."""
