"""`make torture`: runs are killed, interrupted, starved and lied to; nothing may be lost."""
