"""Producer, Consumer and Admin over asyncio, and the same behind a background loop for blocking code."""
