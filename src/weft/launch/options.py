"""Know the launchers, and how many values each of their options takes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Family(Enum):
    """A family of launchers with the same options."""

    HYDRA = "hydra"
    """MPICH's mpiexec and what comes from it: Intel MPI, MVAPICH."""
    OPENMPI = "openmpi"
    """Open MPI's mpirun, ORTE or PRRTE."""
    SRUN = "srun"
    OTHER = "other"


LAUNCHERS = {"mpiexec", "mpirun", "orterun", "prterun", "prun", "srun"}
"""Launchers whose options are understood, by the word before the first dot (mpiexec.hydra, mpirun.openmpi)."""
OTHER_LAUNCHERS = {"aprun", "ccc_mprun", "flux", "ibrun", "jsrun", "lrun", "mpiexec_mpt", "palsrun"}

# Options that take values, by their name without dashes; the others take none. An unknown option is judged by what
# follows it, see `arity`.
VALUES: Mapping[Family, Mapping[str, int]] = {
    Family.HYDRA: {
        **dict.fromkeys(("env", "genv"), 2),
        **dict.fromkeys(
            "n np f host hosts hostfile machinefile machine ppn perhost rr wdir gwdir dir gdir path gpath umask gumask "
            "arch garch soft gsoft file envlist genvlist exitinfo bind-to binding map-by membind topolib launcher "
            "bootstrap launcher-exec bootstrap-exec rmk iface usize outfile-pattern errfile-pattern outfile errfile "
            "order-nodes localhost configfile stdin s port pmi-port nameserver demux debugger "
            "prepend-pattern timeout gpus-per-proc gpu-subdevs-per-proc hosts-group pmi-args".split(),
            1,
        ),
        **dict.fromkeys(
            "l prepend-rank v verbose info version genvall genvnone envall envnone print-all-exitcodes profile "
            "disable-auto-cleanup disable-hostname-propagation enable-x disable-x print-rank-map skip-launch-node "
            "noconf".split(),
            0,
        ),
    },
    Family.OPENMPI: {
        **dict.fromkeys("mca gmca omca prtemca gprtemca pmixmca gpmixmca".split(), 2),
        **dict.fromkeys(
            "n np c N x H host hostfile machinefile default-hostfile add-host add-hostfile map-by bind-to rank-by "
            "npernode npersocket wdir wd path prefix app stdin timeout cpu-set cpu-list cpus-per-proc cpus-per-rank "
            "output output-filename output-directory report-uri report-pid report-events rankfile rf slot-list tmpdir "
            "max-restarts server-wait-time ompi-server am tune personality dvm dvm-uri pset preload-files display "
            "runtime-options with-ft forward-signals launch-agent prtemca-file num-restarts pid namespace uri "
            "get-stack-traces-timeout initial-errhandler rank-output-directory".split(),
            1,
        ),
        **dict.fromkeys(
            "oversubscribe nooversubscribe allow-run-as-root q quiet v verbose V version tag-output timestamp-output "
            "merge-stderr-to-stdout display-map display-allocation display-devel-map display-topo report-bindings "
            "nolocal pernode bynode byslot bycore bysocket by-node bind-to-core bind-to-socket bind-to-none s "
            "preload-binary xml debug d debug-daemons leave-session-attached use-hwthread-cpus "
            "use-regexp get-stack-traces report-state-on-timeout continuous enable-recovery disable-recovery "
            "do-not-launch do-not-resolve index-argv-by-rank novm no-ready-msg staged-output "
            "stream-buffering xterm gpu-support keep-fqdn-hostnames ompi-event".split(),
            0,
        ),
    },
    Family.SRUN: {
        **dict.fromkeys(
            "n ntasks N nodes c cpus-per-task p partition A account t time J job-name w nodelist x exclude C "
            "constraint m distribution o output e error i input D chdir M clusters d dependency G gpus q qos r "
            "relative S core-spec T threads U W wait B extra-node-info L licenses mem mem-per-cpu mem-per-gpu "
            "gres gres-flags mpi cpu-bind mem-bind jobid ntasks-per-node ntasks-per-core ntasks-per-socket "
            "ntasks-per-gpu gpus-per-task gpus-per-node gpu-bind hint export export-file kill-on-bad-exit "
            "reservation signal switches tmp wckey multi-prog-file task-prolog task-epilog prolog epilog "
            "profile network open-mode het-group comment begin".split(),
            1,
        ),
        **dict.fromkeys(
            "l label u unbuffered O overcommit s oversubscribe K k no-kill Q quiet v verbose X disable-status E "
            "preserve-env H hold Z no-allocate b batch exclusive contiguous exact overlap pty test-only "
            "use-min-nodes".split(),
            0,
        ),
    },
    Family.OTHER: {},
}
