"""Observations of the world around a box: connections, copies, network, environment, schedulers, providers."""

# ruff: noqa: E501  one observation is one row
TABLE = """
ssh.rc | int | status | ssh | exit status of the ssh client
ssh.stderr | text | | ssh | what the ssh client said
ssh.class | text | | ssh | ok remote_exit refused timeout_tcp timeout_banner reset_kex auth hostkey hostkey_unknown dns closed_mid signal
ssh.tcp_ok | bool | | ssh | a TCP connection opens
ssh.banner_ok | bool | | ssh | the server named itself
xfer.rc | int | status | transfer | exit status of the copying tool; rsync: 11 disk, 12 stream, 20 interrupted, 23 partial, 24 vanished, 30 timeout, 255 ssh
xfer.tool | text | | transfer | rsync scp tar api
xfer.delta_60s | int | bytes | transfer | growth of the target in 60 s
xfer.partial | list | names | transfer | files under their final name with another size than the manifest says
xfer.verify | text | | verify | none size sha256_ok sha256_bad missing extra, against the box's manifest
xfer.load | text | | verify | ok error skipped
xfer.finite | text | | verify | ok nonfinite skipped
xfer.zipcrc | text | | verify | ok bad n/a
net.route_ms | map | ms | net | time to hub, index, tracker, git, with and without proxy
net.proxy_env | map? | | net | proxy variables; null: none is set
net.mirror_env | map? | | net | HF_ENDPOINT, PIP_INDEX_URL and the like; null: none is set
net.http_code | int | status | net | answer to a probe request
net.mtu_large | text | | net | ping of 8972 bytes, unfragmented: ok lost n/a
net.mtu_small | text | | net | ping of 1472 bytes, unfragmented: ok lost n/a
net.port_wanted | int? | port | log | port that the run could not listen on, by its log, environment or command; null: it names none
net.port_holder | text? | | net | who listens on that port: pid, name, and which run of ours it is; null: nobody
env.crlf_files | list | names | code | scripts with carriage returns
env.lock_hash | text | digest | python | digest of the installed packages
env.image_digest | text? | digest | launch | digest of the running image; null: only a tag is known
env.torch_pinned | bool | | code | the requirements pin torch
env.has_main_guard | bool | | code | loaders and training start below `if __name__ == "__main__"`
env.omp | int? | threads | process | OMP_NUM_THREADS of the payload
env.torch_threads | int | threads | torch | torch.get_num_threads()
env.pythonunbuffered | bool | | process | PYTHONUNBUFFERED is set, or python -u
env.numpy_worker_seed | bool | | code | workers seed numpy each on their own
code.traps | list | names | code | gotchas whose trap `doctor --code` sees in the sources of the run
k.phase | text | | k8s | phase of the pod
k.reason | text? | | k8s | status.reason of the pod
k.message | text? | | k8s | status.message of the pod
k.wait | text? | | k8s | why a container waits
k.last | map? | | k8s | last end of a container: reason, exitCode, signal, finishedAt
k.restarts | int | times | k8s | restarts of its containers
k.events | list | texts | k8s | reason and message of events
k.cond | list | texts | k8s | type, status, reason and message of its conditions
k.job_cond | list | texts | k8s | the same of the Job
k.alloc_gpu | int | cards | k8s | nvidia.com/gpu that the nodes can give
k.pvc | text | | k8s | phase and access modes of the claim
k.mem_limit | int | bytes | k8s | limits.memory of the container that ended badly, else of the first one with a limit
k.spec_gpu | int? | cards | k8s | nvidia.com/gpu limit of the containers; null: none names one, which a job for the CPU does not either
k.policy | text | | k8s | restartPolicy of the template
k.node_gone | bool | | k8s | its node is deleted, or spot and not ready
nb.gpu | bool | | notebook | torch sees a card in the first cell
nb.internet | bool | | notebook | a request in the first cell is answered
nb.idle_min | float | min | notebook | minutes since somebody did something
nb.session_h | float | h | notebook | hours since the machine began
nb.drive_size | int? | bytes | notebook | size of the checkpoint in a fresh listing of the drive
nb.local_size | int | bytes | notebook | size as written
nb.commit_status | text | | notebook | queued running complete error cancelAcknowledged
nb.output_files | int | files | notebook | files of the committed output
nb.path_kind | text | | launch | durable, scratch
prov.kind | text | | platform | platform of the site
prov.state | text | | provider | the provider's own word
prov.state_age_s | float | s | provider | seconds in that state
prov.exists | text | | provider | yes no unknown
prov.intended | text | | provider | state it is meant to be in
prov.gpu_attached | int | cards | provider | cards attached, by the provider
prov.balance_h | float | h | provider | balance over current burn
prov.stopped_days | float | d | provider | days since it was stopped
prov.billing_items | list | | provider | what still costs: instance disk volume snapshot ip filesystem reservation
prov.port_map | map | | provider | ports now against those kept: changed, proxy, direct
prov.ip_changed | bool | | provider | another address than the one kept
prov.region | map | | provider | regions of box, volume, file system: same, differs
prov.spot | bool | | provider | may be taken away
prov.capacity | bool | | provider | the type is offered somewhere now
prov.capacity_enabled | bool? | | provider | the account may use such capacity
prov.api_elapsed_s | float | s | provider | seconds of the releasing call
prov.clock | map? | | platform | timers that stop or release; null: none
prov.price_net | float | money/GB | provider | price of traffic
prov.mounts | list | paths | mounts | mount points there are
prov.image_cuda | text | version | provider | CUDA of the image
prov.vis | text | | provider | public, private
prov.delete_acked | bool | | provider | our releasing call was acknowledged
prov.stop_only | bool | | client | our last call was stop, not release
prov.volume_attached | bool | | provider | a durable volume is attached
prov.disk_gb | float | GB | provider | size of the root disk
"""
