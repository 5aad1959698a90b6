"""Two replicas of one site's journal and a witness: who leads, and what is durable at both (PROMISES section 2)."""
