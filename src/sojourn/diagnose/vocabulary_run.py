"""Observations of a run: its process, its log, its steps and checkpoints, its queue, its artifacts."""

# ruff: noqa: E501  one observation is one row
TABLE = """
run.exit_code | int? | status | exit | status of the payload as its shim waited for it; null: it ended by a signal
run.exit_signal | int? | signal | exit | signal that ended the payload, also from a shell's 128+N and a launcher's -N
run.exit_record | bool | | exit | exits/N.json is there and reads
run.child_signals | list | signal | log | negative `exitcode` of the first failed rank in a launcher's report, -15 of survivors left out
run.alive | bool | | process | the pid lives, with the start time kept at launch, and is no zombie
run.alive_disputed | bool | | process | one observation says that the run lives or moves, another one that it ended
run.state | text | | process | state letter of /proc/PID/stat: R S D Z T
run.age_s | float | s | process | seconds since the payload began, by the boot clock
run.elapsed_ratio | float | share | client | seconds taken over seconds expected (median of sibling cells, or what the user said)
run.cpu_delta_s | float | s | process | CPU seconds of the process tree between two looks
run.log_age_s | float | s | log | now minus the log's mtime, both on the box
run.log_text | text | | log | end of this attempt's own log, and its notable lines; conditions speak of its events, `log.*`
log.ended_by | text | | log | lines of the log that nothing shows the run got over: what may have ended it, with the frames of its tracebacks; no progress, warnings, echoed commands, help pages or printed configurations
log.warned | text | | log | warnings, and words that it is tried again, that nothing shows the run got over
log.recovered | text | | log | lines of the log after which the run went on
log.said | text | | log | what the log states, whether the run went on or not, without echoed commands, help pages and printed configurations
log.first_of | text? | | log | the first error, of all ranks, that the run did not get over; null: there is none
log.rank | int? | rank | log | the rank that it came from; null: none is written before it
run.log_bytes | int | bytes | log | size of the log
run.log_block_left | int | bytes | log | what the last block of the log, counted as 1024 bytes, could still take: next to nothing where a full disk cut it off
run.log_traceback | bool | | log | a Python traceback begins in this attempt's log
run.log_end | text | | log | how the log ends: progress, done, error, traceback, cut, empty
run.log_loss_finite | bool | | log | the losses that the log tells last are numbers; false when three in a row or more are NaN or infinite
run.log_norm_finite | bool | | log | the same of the gradient's norm, also false when all are none, or the last one beside a loss of 0
run.log_raised | text | | log | the exception that the log ends with: its name and what it says, no progress after it
run.step | int? | steps | progress | newest step the run told, else the newest one its log shows
run.step_total | int? | steps | progress | steps planned, as told or as the log shows them (step 3 of 100)
run.step_advancing | bool | | progress | the step grew between two looks
run.ckpt_age_s | float | s | checkpoints | now minus mtime of the newest finished checkpoint
run.ckpt_advancing | bool | | checkpoints | a newer finished checkpoint than at the look before
run.ckpt_problem | text? | | checkpoints | what our loader says of the checkpoint chosen for resume: truncated, corrupt, empty, missing; null: it loads
run.done_record | bool | | exit | our own completion record: status 0 and every declared output there
run.detached | text | | process | yes, no: own session, and stdin is no terminal of a login
run.tty | bool | | process | the process has a controlling terminal
run.rule | int | number | events | which of the job file's `rules` fits the log of an attempt that ended badly, from 1; 0: none
run.rule_line | text? | | events | the line that it fits
run.restarts | int | attempts | events | attempts after the first
run.stop_requested | bool | | events | we asked this run to stop before it ended
run.stop_why | text | | events | why it was told to end: stop, budget, max_duration, shutdown, pruned (by its sweep); walltime (a scheduler's limit is near), seat (a scheduler takes the machine); preflight (not begun on the machine that a scheduler gave)
run.kill_foreign | bool | | audit | somebody's pkill or killall pattern matches the command of this run
run.env | map? | names | process | names in the environment of the payload; values are not kept
run.argv | list? | | process | command of the payload
run.shell_scripts | int | processes | process | shells of the run that read a script file
run.threads | int | threads | process | threads of the process tree
run.cores_busy | float | cores | process | CPU seconds of the process tree over the seconds of one look
run.log_growing | bool | | events | the log grew lately, by the pauses at which it grew before, or since the look before
run.stalled | bool | | events | the keeper saw no output, steps or activity for `stall_after`, and none since
run.rss_tree | int | bytes | process | proportional memory of the process tree
run.rss_peak | int | bytes | events | highest resident memory of the process tree that the keeper's beats saw
run.gpu_tried | int | bytes | log | what the last message about a full GPU tried to allocate
run.gpu_free | int | bytes | log | what it says the GPU had free
run.gpu_total | int | bytes | log | what it says the GPU has
run.workers | int | processes | process | DataLoader workers among the children (pt_data_worker)
run.open_files | int | files | process | open descriptors of the payload
run.open_files_limit | int | files | process | its soft limit of descriptors
run.script_drift | bool | | process | a script that a shell holds open has other bytes than at launch, same inode
run.began_anew | bool | | events | this attempt began at the steps of the first one, though it had a checkpoint to resume from
run.start_step | int? | steps | log | first step this attempt told
run.ckpt_start_step | int? | steps | launch | step of the checkpoint chosen at start; null: there was none
run.code_sha | text | digest | code | digest of the code folder, now
run.watcher_exit | text? | | client | what became of the local watcher: done, event, timeout, running; null: there was none
run.stdin_inherited | bool | | process | stdin of the payload is not /dev/null
mon.crash_claim | bool | | user | a watcher or a person says it crashed
mon.alive_by_name | bool | | user | a name pattern says it is alive; kept to show the disagreement
q.index_shift | bool | | queue | the queue file changed other than by lines added at its end
q.owner_conflict | bool | | client | two boxes claim the same cell
q.marker_old | bool | | queue | the completion text is older than the newest submission
q.report_complete | bool | | queue | the queue said that all is done
q.cells_started | int | cells | events | cells with a start record
q.cells_total | int | cells | client | cells of the roster
q.last_newline | bool | | queue | the queue file ends with a newline
art.roster_missing | list | names | roster | expected results of which a file lacks
art.roster_extra | list | names | roster | results that nobody expected
art.dup_names | list | names | client | names claimed by more than one cell
art.dup_writers | bool | | process | two live processes write below one folder, or two attempts did
art.zero_bytes | list | names | roster | required files of 0 bytes
art.sync_logged | bool | | log | the log claims a copy
art.sync_exists | bool | | roster | the copy is there, with the same sha256
art.files | int | files | roster | files below the output folder
art.ckpt_total | int | bytes | roster | bytes of checkpoints, planned ones of this box included
cfg.diff_keys | list | names | client | settings that differ from the control run
cfg.overrides | list | words | launch | settings overridden on the command line
cfg.epochs_source | text | | launch | where the number of epochs comes from: cli, yaml, default
trk.mode | text | | log | tracker: online, offline, disabled, none
trk.first_line_ok | bool | | log | the tracker's first line (run name or address) came
trk.local_runs | int | runs | tracker | run folders the tracker keeps here
trk.remote_runs | int | runs | tracker | runs its server lists
trk.deleted_seen | bool | | tracker | a deleted run is listed again
mn.fabric | text | | gpu | fabric manager or fabric state of every box: active, inactive, completed, n/a
mn.last_line | map | s | log | last line of every rank, by time
mn.last_line_spread_s | float | s | log | newest minus oldest last line over the ranks
mn.nic | text | | log | device that NCCL says it uses
mn.nic_differs | bool | | log | boxes use different classes of device
mn.timeout_ms | int? | ms | log | limit that the collective's watchdog names
mn.live_workers | int | processes | log | workers of an elastic job that live
mn.min_np | int | processes | launch | fewest workers the elastic job accepts
mn.first_rank | int? | rank | log | rank whose own error came first
"""
