"""Anneal: raw files to a benchmarked, versioned language model, as one file-based DAG."""
