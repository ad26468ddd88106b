"""What runs do now and what they cost: `status`, `watch`, `logs`, `tunnel`, `leases`, `cost`."""
