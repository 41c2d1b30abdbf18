// The keys of [checkpoint] and [log].
#include "launcher/keys/key_rules.h"
#include "launcher/keys/key_scopes.h"
#include "launcher/keys/section_keys.h"

namespace trireme {

void add_output_keys(std::vector<ConfigKey>& keys) {
  using C = CheckpointSection;
  SectionKeys<C>(keys, "checkpoint", &JobConfig::checkpoint)
      .add("every", &C::every, count_from(0),
           "Steps between checkpoints. 0: only after the last step or an early stop. Above 0, all hosts of "
           "the job must see the output folder.")
      .add("keep", &C::keep, count_from(0), "Number of newest checkpoints to keep. 0: all.")
      .add(
          "verify_every", &C::verify_every, count_from(0),
          "Steps between checks for silent corruption of the training state. 0: never. State that several "
          "data ranks hold has the same bits on all of them and is compared. A flipped bit ends the job; the "
          "error names the ranks and the range of steps. Each checkpoint is verified before it is saved, so "
          "the newest checkpoint precedes the corruption. On CPUs, ZeRO shards and state of a single data "
          "rank carry a checksum from each update to the next. In each step, working copies are compared, "
          "and messages between ranks are summed by sender and by receiver, except with `reduction = "
          "\"fast\"`. On GPUs this key is refused together with ZeRO. The results do not change.")
      .add("background", &C::background, any(),
           "Write checkpoints while training continues. Between two steps each rank copies its shard into "
           "host memory: 12 bytes per parameter with AdamW, divided by the data ranks. Predicted memory "
           "includes the copy. A thread of each rank then writes the files. All hosts must see the output "
           "folder. The next checkpoint, a stop and the end of the run wait for a save in progress. The last "
           "checkpoint of a run is written in the foreground. Files and results are the same.")
      .add("partner", &C::partner, any(),
           "Also keep the newest checkpoint in the memory of hosts. Each host holds the shards of its own "
           "ranks and a copy of the shards of another host. If the file system has no complete checkpoint "
           "that is as new, a start resumes from these copies, on any layout, even after the loss of one "
           "host. In a new output folder it does so if path, job and data are the same; `resume = \"never\"` "
           "starts from step 0. As with `background`, copies are written and sent while training continues, "
           "from a snapshot that predicted memory includes. Full memory only causes a warning. When the run "
           "is done, its hosts remove the copies. When it stops or fails, they keep them.")
      .add("partner_folder", &C::partner_folder, any(),
           "Folder for the copies of `partner` in each host's memory, on a tmpfs; `{uid}` is replaced by the "
           "user's id. Below it, each host and output folder has a subfolder, which is checked to be "
           "private: no other user can read, change or replace it. With AdamW the copies take 24 bytes per "
           "parameter, divided by the hosts (12 on one host), and twice that while a new copy is made. A "
           "restart needs room for the copies and the whole checkpoint on each host.")
      .only(for_partner_copies())
      .add("resume", &C::resume, "",
           "`auto`: resumes from the newest complete checkpoint of the output folder, if there is one. "
           "`never`: starts from step 0. Otherwise: path of a checkpoint.")
      .add("new_data", &C::new_data, any(),
           "Accept data that differs from the data of the checkpoint: training or evaluation data, "
           "tokenizer, image size or normalisation. Otherwise different data is refused. New training data "
           "is read from its first sample. A later start with the same data continues at its position.");
  using G = LogSection;
  SectionKeys<G>(keys, "log", &JobConfig::log)
      .add("every", &G::every, count_from(1),
           "Steps between progress lines when the output is not a terminal.")
      .add("phases", &G::phases, any(),
           "Show in the progress line, where they are measured, the phases of rank 0's step in percent and "
           "the rank that was busy longest.")
      .add("state_hash_every", &G::state_hash_every, count_from(0),
           "Steps between hashes of the training state in metrics.jsonl. 0: never.")
      .add_string_or_number(
          "trace_step", &G::trace_step, "0 or more, \"100-200\", \"100-200/20\"",
          "Step to trace. The actions of every rank are timed and written to the output folder: `trace.json` "
          "for Perfetto, and `trace.svg`. A range such as \"100-200\" traces each of its steps, "
          "\"100-200/20\" every 20th, into `trace-000100.json`, `trace-000100.svg` and so on. 0: none.")
      .add("prometheus", &G::prometheus, any(),
           "File to which rank 0 writes the metrics of the run in Prometheus's text format, for the textfile "
           "collector of node-exporter. It is written after steps, at most once a second, and at "
           "evaluations, checkpoints and the end. The name must end in `.prom`. A relative path must stay "
           "inside the output folder. An absolute path may be anywhere, such as in the collector's folder; "
           "its folder must exist. Readers never see a partial file. A failed write during the run causes a "
           "warning. Empty: none.")
      .add(
          "listen", &G::listen, any(),
          "Address such as \"127.0.0.1:9464\" or \"[::1]:9464\" at which rank 0 serves the same metrics over "
          "HTTP, under /metrics. Port 0 selects a free port; the log names it. Anybody who can reach the "
          "address can read the metrics, so an address other than loopback causes a warning. Empty: none.")
      .add("gpus", &G::gpus,
           "GPUs of rank 0's machine whose sensors `prometheus` and `listen` export, with the driver's "
           "values. `job`: the GPUs that rank 0 sees, in a job on GPUs. `all`: all GPUs of the machine. "
           "`none`: none. Metric names differ from those of dcgm-exporter.")
      .add("tensorboard", &G::tensorboard, any(),
           "Write the scalars of metrics.jsonl as TensorBoard event files to `tensorboard/` in the output "
           "folder.");
}

}  // namespace trireme
