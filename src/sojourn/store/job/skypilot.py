"""Keys of a SkyPilot task that mean nothing here.

Source: docs.skypilot.co/en/latest/reference/yaml-spec.html and sky/utils/schemas.py of its repository, 2026-11.
"""

from __future__ import annotations

SKYPILOT = frozenset(
    "service pool inputs event_callback experimental config volumes volume_mounts managed_secrets file_mounts_mapping"
    " api_server_access _metadata".split()
)
SKYPILOT_RESOURCES = frozenset(
    "infra cloud region zone instance_type accelerator_args use_spot spot spot_recovery job_recovery disk_tier"
    " network_tier local_disk ephemeral_storage max_hourly_cost image_id ports labels autostop priority priority_class"
    " volumes any_of ordered hooks _docker_login_config _is_image_managed _requires_fuse _cluster_config_overrides"
    " _no_missing_accel_warnings".split()
)
