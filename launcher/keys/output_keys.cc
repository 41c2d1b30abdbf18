// The keys of [checkpoint] and [log].
#include "launcher/keys/key_rules.h"
#include "launcher/keys/key_scopes.h"
#include "launcher/keys/section_keys.h"

namespace trireme {

void add_output_keys(std::vector<ConfigKey>& keys) {
  using C = CheckpointSection;
  SectionKeys<C>(keys, "checkpoint", &JobConfig::checkpoint)
      .add("every", &C::every, count_from(0),
           "Steps between checkpoints. 0: only after the last step, or when stopped early. Above 0, all "
           "hosts of "
           "a job see the output folder.")
      .add("keep", &C::keep, count_from(0), "Newest checkpoints that are kept. 0: all.")
      .add("verify_every", &C::verify_every, count_from(0),
           "Steps between comparisons of the state of data ranks, which has the same bits on all of them. 0: "
           "never. A bit that flipped in memory ends the job with the ranks and the steps in which it "
           "happened. Each checkpoint is verified before it is saved, so that the newest one is from before. "
           "On CPUs, shards of ZeRO and what a single data rank has carry a checksum from each update to the "
           "next, working copies are compared in each step, and messages between ranks are summed up by who "
           "sends and by who receives them in each step, but for `reduction = \"fast\"`; on GPUs ZeRO is "
           "refused with it. The results do not "
           "change.")
      .add("background", &C::background, any(),
           "Write checkpoints while training goes on: between two steps each rank copies its shard, 12 "
           "bytes a parameter with AdamW, divided by the data ranks, into host memory that the prediction "
           "counts; then a thread of each writes, while another one is not begun. All hosts see the output "
           "folder. The next checkpoint, a stop and the end wait for the one that is under way, and the "
           "last one of a run is written at once. The files are the same, and so are the results.")
      .add(
          "partner", &C::partner, any(),
          "Keep the newest checkpoint in the memory of hosts, too: each host has what its ranks saved, and a "
          "copy of what those of another host did. A start whose file system has no whole checkpoint as new "
          "goes on from there, on any layout, though one host is lost; in a new output folder, too, where "
          "path, job and data are the same (`resume = \"never\"` begins anew). Written and sent while "
          "training goes "
          "on, from a copy of the shard that the prediction counts, as with `background`; a memory that is "
          "full is a warning. Removed from the hosts that take part when the run is done, kept when it stops "
          "or "
          "fails.")
      .add(
          "partner_folder", &C::partner_folder, any(),
          "The folder of a host's memory for `partner`, a tmpfs; `{uid}` stands for the number of the user. "
          "Below it each host and output folder has a folder that no other user can read, change or replace, "
          "which is checked. With AdamW it takes 24 bytes a parameter, divided by the hosts (12 on one "
          "host), and "
          "twice "
          "that while a copy is made; a restart needs room for it and the whole checkpoint on each host.")
      .only(for_partner_copies())
      .add("resume", &C::resume, "",
           "`auto`: from the newest whole checkpoint of the output folder, if there is one. `never`: from "
           "step 0. Else the path of a checkpoint.")
      .add("new_data", &C::new_data, any(),
           "Accept data that differs from what the checkpoint was trained on, which is refused otherwise: "
           "training or evaluation data, the tokenizer, the size or normalisation of pictures. New training "
           "data is read from its first sample on; a later start with the same data continues at its place.");
  using G = LogSection;
  SectionKeys<G>(keys, "log", &JobConfig::log)
      .add("every", &G::every, count_from(1),
           "Steps between progress lines when the output is not a terminal.")
      .add("phases", &G::phases, any(),
           "The progress line ends with the phases of rank 0's step, in percent, and with the rank that was "
           "busy longest, where they are measured.")
      .add("state_hash_every", &G::state_hash_every, count_from(0),
           "Steps between hashes of the training state in metrics.jsonl. 0: never.")
      .add_string_or_number(
          "trace_step", &G::trace_step, "0 or more, \"100-200\", \"100-200/20\"",
          "The step whose actions are timed, on every rank: `trace.json` for Perfetto and `trace.svg` in the "
          "output folder. A range, and one of so many steps in it, writes `trace-000100.json` and "
          "`trace-000100.svg` for each. 0: none.")
      .add("prometheus", &G::prometheus, any(),
           "A file that rank 0 writes the metrics of the run to, in Prometheus's text format, for the "
           "textfile collector of node-exporter: after steps, at most once a second, and at evaluations, "
           "checkpoints and the end. Its name ends in `.prom`. A relative path lies in the output folder "
           "and does not lead out of it; an absolute one may be anywhere, as the collector's folder is, and "
           "its folder exists. A reader sees a whole file. What cannot be written later is a warning. "
           "Empty: none.")
      .add("listen", &G::listen, any(),
           "An address such as \"127.0.0.1:9464\" or \"[::1]:9464\" at which rank 0 serves the same text "
           "over HTTP, under /metrics. Port 0 takes a free one, which the log names. Anybody who reaches "
           "the address can read the metrics: one that is not this machine's alone is warned of. Empty: "
           "none.")
      .add("gpus", &G::gpus,
           "The GPUs of rank 0's machine whose sensors `prometheus` and `listen` show, as the driver tells "
           "them: those that rank 0 sees in a job on GPUs, all that the machine has, or none. The names are "
           "not those of dcgm-exporter.")
      .add("tensorboard", &G::tensorboard, any(),
           "The scalars of metrics.jsonl as TensorBoard's event files, in `tensorboard/` of the output "
           "folder.");
}

}  // namespace trireme
