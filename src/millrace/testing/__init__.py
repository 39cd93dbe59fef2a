"""What tests need and users may want too: oracles, configurations, crashes and kills."""
