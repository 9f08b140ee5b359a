"""Fine-tuning of encoders and rerankers on a registry's own tools and queries (extra `train`)."""
