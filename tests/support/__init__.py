"""What several test modules share: clusters to run on, and clients that are not the product's own."""
