#include "launcher/keys/config_keys.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/keys/key_rules.h"
#include "launcher/keys/key_scopes.h"
#include "launcher/keys/layout_keys.h"
#include "launcher/keys/section_keys.h"
#include "runtime/precision.h"

namespace trireme {
namespace {

std::string names_of_ops() {
  std::vector<std::string_view> names;
  for (const OpPolicy& policy : kOpPolicies) names.push_back(policy.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string names_of_searched() {
  const OpenFields names = searched_fields();
  return fmt::format("`{}`", fmt::join(names, "`, `"));
}

void add_train_keys(std::vector<ConfigKey>& keys) {
  using T = TrainSection;
  SectionKeys<T>(keys, "train", &JobConfig::train)
      .add("steps", &T::steps, count_from(1), "Optimizer steps of the whole run, including resumed parts.")
      .add("global_batch", &T::global_batch, count_from(1),
           "Samples per step over all ranks; a multiple of `micro_batch`. If the number of micro-batches is "
           "not a multiple of the data ranks, some ranks compute one micro-batch less and wait. With `zero` "
           "2 and 3 this requires `parallel.accumulate_unsharded`; `auto` selects it.")
      .add("micro_batch", &T::micro_batch, count_from(1),
           "Samples per forward and backward pass of a rank; gradients are accumulated over the "
           "micro-batches of a step.")
      .add("seed", &T::seed, at_least(0), "Seed of initial parameters, sample order and dropout.")
      .add("eval_every", &T::eval_every, count_from(0),
           "Steps between evaluations. 0: only after the last step.")
      .add("eval_batches", &T::eval_batches, count_from(0),
           "Number of global batches per evaluation; every evaluation reads the same samples. Token data: "
           "the first batches. Image data: samples spread evenly over the set. 0: the whole evaluation set.")
      .add("freeze", &T::freeze, any(),
           "Patterns of parameters that keep their values, such as [\"embedding*\", \"blocks.?.*\"]. `*` "
           "matches any characters, `?` matches one; names are as in checkpoints. Frozen parameters have no "
           "gradient and no optimizer state, and neither is exchanged. A checkpoint resumes only with the "
           "same patterns. `model.init_from` accepts weights of a run with other patterns.")
      .add("max_minutes", &T::max_minutes, at_least(0),
           "Time limit of this run in minutes, for time slices of a scheduler. Within the limit the run "
           "stops with a checkpoint and exit code 75. After at least one step, it stops when the remaining "
           "time is shorter than twice its longest step and checkpoint. 0: no limit. With `trireme run`, the "
           "limit applies to all attempts together.")
      .add(
          "on_spike", &T::on_spike,
          "Reaction to a spike: a step whose loss or gradient norm exceeds the median of the previous 64 "
          "steps by 10 standard deviations, and by at least half the median. `ignore`: none. `warn`: logs a "
          "warning. `skip`: makes no update, on any layout. Parameters, averages, running statistics, "
          "optimizer state and its update count stay unchanged; step number, learning rate schedule and data "
          "advance. After 8 consecutive skips, the next spike, and later ones of the same height, are "
          "accepted. With `skip` the host waits for each step on GPUs. `rollback`: ends the job before a "
          "checkpoint contains the step; the same command, or `trireme run`, resumes from the checkpoint "
          "before. A spike caused by a fault does not recur. A spike that recurs is accepted with a warning, "
          "as are spikes in the next 64 steps. `rollbacks.jsonl` in the output folder lists the steps.")
      .add("ema", &T::ema, from_to_below(0, 1),
           "Decay of an exponential moving average of the trained parameters, such as 0.999. Averages start "
           "from the initial parameters, are stored in fp32 beside the optimizer state, and are updated "
           "after every step that is not skipped. Evaluations use the averages, and the log says so. "
           "`trireme eval`, `sample` and `export` use them with --ema. Running statistics are not averaged. "
           "0: no averages.")
      .add("ema_tau", &T::ema_tau, at_least(0),
           "Ramp of the decay of `ema`: after t updates it is `ema` (1 - exp(-t / `ema_tau`)), as in YOLO, "
           "with 2000 there. 0: no ramp.");
}

void add_lora_keys(std::vector<ConfigKey>& keys) {
  using M = ModelSection;
  const KeyScope with_targets{.text = "jobs with train.lora.targets",
                              .decided_by = "train.lora.targets",
                              .holds = [](const JobConfig& job) { return job.model.has_adapters(); },
                              .refuses_defaults = true};
  SectionKeys<M>(keys, "train.lora", &JobConfig::model)
      .add("targets", &M::lora_targets, any(),
           "Linear layers that get a low-rank adapter (LoRA), such as [\"attention.qkv\", \"mlp.*\"]: names "
           "of their weights without \".weight\", whole or from a dot on, with the patterns of "
           "`train.freeze`. [\"all-linear\"]: all inner layers. y = x W^T becomes x W^T + (alpha / rank) (x "
           "A^T) "
           "B^T. A and B are trained. All other parameters are frozen, except the classification layer with "
           "`model.task` = classify or `model.new_head`. The parts of packed weights (qkv, gate_up) share A. "
           "LSTMs: weight_ih_l0 and so on, not weight_hh. Empty: no adapters.")
      .add("rank", &M::lora_rank, count_from(1),
           "Rows of A and columns of B; at most the smaller dim of a weight.")
      .only(with_targets)
      .add("alpha", &M::lora_alpha, above(0), "The output of adapters is scaled by alpha / rank.")
      .only(with_targets)
      .add("rank_stabilized", &M::lora_rank_stabilized, any(),
           "Scale by alpha / sqrt(rank) instead (rsLoRA), so that outputs and gradients keep their size with "
           "larger ranks. An `alpha` chosen for alpha / rank becomes too large by sqrt(rank).")
      .only(with_targets)
      .add(
          "quantize", &M::lora_quantize,
          "Stored form of the frozen weights of all inner linear layers. `nf4` (QLoRA): codes of 4.127 bits "
          "in all, as in bitsandbytes with double quantization, decoded to the compute dtype when they are "
          "used. Every data rank has all codes, whatever `parallel.zero` is. Checkpoints and exports contain "
          "the decoded numbers.")
      .only(with_targets);
}

void add_optimizer_keys(std::vector<ConfigKey>& keys) {
  using O = OptimizerSection;
  using Kind = OptimizerConfig::Kind;
  SectionKeys<O>(keys, "optimizer", &JobConfig::optimizer)
      .add("name", &O::name,
           "Update rule. `lion` keeps one moment instead of two; it needs an `lr` 3 to 10 times smaller than "
           "`adamw`, and a `weight_decay` larger by the same factor. `muon` orthogonalizes the momentum of "
           "each matrix by five rounds of Newton-Schulz in fp32. It applies to the two-dimensional weights "
           "between the first and the last block; embeddings, head, biases and norms are updated as with "
           "`adamw`. Both use the same `lr`, except for `adjust_lr` and `lr_scale`. `muon` needs "
           "`parallel.zero` = 0 and `model.tensor_chunks` = 1.")
      .add("lr", &O::lr, above(0), "Peak learning rate.")
      .add("min_lr", &O::min_lr, at_least(0),
           "Final learning rate of all schedules but `constant`. `one_cycle` reaches it at the last step, "
           "the others one step after it, as PyTorch's CosineAnnealingLR with T_max = the number of steps "
           "after warm-up. With S steps, of which W are warm-up, step s (counted from 0) has the rate min_lr "
           "+ c (lr - min_lr), where p = (s - W) / (S - W), c = 1 - p for `linear`, and c = (1 + cos(pi p)) "
           "/ 2 for `cosine`. Example: from 0.4 to 0.04 in 10 steps, the last step has 0.076 with `linear` "
           "and 0.0488 with `cosine`.")
      .add("weight_decay", &O::weight_decay, at_least(0),
           "Applies to matrices, not to biases and norms. `sgd` adds it to the gradient; in the others it is "
           "decoupled.")
      .add("betas", &O::betas, from_to_below(0, 1),
           "`adamw`, and parameters that `muon` updates like it: decay rates of the first and second moment. "
           "`lion`: the moment's decay rate in the update and in the moment itself; default 0.9 and 0.99.")
      .only(for_optimizers({Kind::kAdamW, Kind::kLion, Kind::kMuon}))
      .add("epsilon", &O::epsilon, above(0),
           "Added to the root of the second moment in `adamw`, and for parameters that `muon` updates like "
           "it.")
      .only(for_optimizers({Kind::kAdamW, Kind::kMuon}))
      .add("momentum", &O::momentum, from_to_below(0, 1),
           "`sgd`: 0 keeps no momentum buffer. `muon`: default 0.95.")
      .only(for_optimizers({Kind::kSgd, Kind::kMuon}))
      .add("nesterov", &O::nesterov, any(), "Nesterov momentum. `muon`: default true.")
      .only(for_optimizers({Kind::kSgd, Kind::kMuon}))
      .add("adjust_lr", &O::adjust_lr,
           "Learning rate factor of a matrix with r rows and c columns, as adjust_lr_fn of torch.optim.Muon. "
           "`original`: sqrt(max(1, r / c)). `match_rms_adamw`: 0.2 sqrt(max(r, c)), which makes updates as "
           "large as those of `adamw`, so that `lr` and `weight_decay` of `adamw` can be used.")
      .only(for_optimizers({Kind::kMuon}))
      .add("schedule", &O::schedule,
           "Learning rate schedule from the warm-up down to `min_lr`. `one_cycle`: half a cosine up from lr "
           "/ 25 within `warmup_steps` (0: 30 % of the steps), then half a cosine down. `wsd`: stays at `lr` "
           "until `decay_steps` before the end, then decays linearly. Skipped steps count.")
      .add("warmup_steps", &O::warmup_steps, count_from(0),
           "Steps in which the learning rate rises linearly; the step after them has `lr`. Must be fewer "
           "than `train.steps`: otherwise `lr` would never be reached. With `constant` that is only a "
           "warning. Skipped steps count, because the rate of a step is set before the device knows whether "
           "the step is skipped.")
      .add("decay_steps", &O::decay_steps, count_from(0),
           "Length of the decay before the end, in steps. 0: a tenth of `train.steps`.")
      .only(for_schedule(LrSchedule::Kind::kWsd))
      .add("grad_clip", &O::grad_clip, at_least(0),
           "Maximum global L2 norm of the gradients; larger gradients are scaled down. 0: no clipping.")
      .add("lr_scale", &O::lr_scale, above(0),
           "Learning rate factors by parameter pattern, such as { \"head*\" = 10.0 }. Patterns are as in "
           "`train.freeze`; the longest matching pattern applies. Decoupled weight decay is scaled, too, as "
           "with parameter groups in PyTorch.")
      .add("decay_scale", &O::decay_scale, at_least(0),
           "Factors of `weight_decay` by parameter pattern, such as { \"embedding*\" = 0.0 }; the longest "
           "matching pattern applies. Without a pattern: 1 for matrices, 0 for biases and norms.");
}

void add_precision_keys(std::vector<ConfigKey>& keys) {
  using P = PrecisionSection;
  SectionKeys<P>(keys, "precision", &JobConfig::precision)
      .add("mode", &P::mode,
           "Compute dtype of matrix products and attention. In fp16 and bf16 it is also the storage dtype of "
           "activations and of the parameters' working copies. Masters, optimizer state and sums are fp32 in "
           "every mode. fp8: as bf16, but the products of linear layers inside blocks read 8-bit operands, "
           "with scales from the largest magnitudes of the last 15 steps; on GPUs it needs sm_89 or newer. "
           "Refused for models without such layers.")
      .add_string_or_number(
          "loss_scale", &P::loss_scale, "\"dynamic\", \"off\" or a number above 0",
          "Loss scaling in fp16: `dynamic` (as PyTorch's GradScaler), a fixed number, or `off` (the first "
          "gradient that overflows ends the job). No effect in the other modes.")
      .add("scale_init", &P::scale_init, above(0), "`dynamic`: initial scale.")
      .add("scale_growth", &P::scale_growth, at_least(1),
           "`dynamic`: growth factor after `scale_interval` consecutive steps without overflow.")
      .add("scale_backoff", &P::scale_backoff, between(0, 1),
           "`dynamic`: factor after a gradient that is not finite; that step is skipped.")
      .add("scale_interval", &P::scale_interval, count_from(1),
           "`dynamic`: consecutive steps without overflow before the scale grows.")
      .add("min_scale", &P::min_scale, above(0), "`dynamic`: a smaller scale ends the job.")
      .add("max_skips", &P::max_skips, count_from(1),
           "fp16: this number of consecutive skipped steps ends the job.")
      .add("grad_dtype", &P::grad_dtype,
           "Dtype in which parameter gradients are accumulated and exchanged. `compute`: the dtype of the "
           "mode. 16 bits halve memory and traffic of gradients, at a loss of accuracy, and need "
           "`parallel.reduction` = canonical.")
      .add("ops", &P::ops, any(),
           "Ops that compute in another dtype than the mode's, such as { attention = \"fp32\" }. Allowed: "
           "\"fp32\", and for `linear` and `attention` also \"tf32\". Ops: " +
               names_of_ops() + ".");
}

void add_engine_keys(std::vector<ConfigKey>& keys) {
  using L = ParallelSection;
  SectionKeys<L>(keys, "parallel", &JobConfig::parallel)
      .add("layout", &L::choice,
           "`auto`: `train`, `run` and `plan` search the fastest layout that fits the given ranks, as "
           "`trireme plan --search` does, and log it. Searched keys: " +
               names_of_searched() +
               ". Keys that the job sets are kept. The results do not change, and a run may resume with "
               "another layout. `parallel = \"auto\"` in place of the section is an abbreviation. So is "
               "`--set parallel=auto`, which also discards the layout keys of the file.")
      .add("cluster", &L::cluster, any(),
           "Description of the machine for the layout search: a file of `trireme doctor --measure` or from "
           "examples/clusters. Empty: a rough description, from the measured speed of a large product and a "
           "copy. It assumes links of 4 GB/s and 5 us within a host (GPUs: 20 GB/s), and of 1.2 GB/s and 50 "
           "us between hosts.")
      .only(for_searched_layouts())
      .add("cluster_device", &L::cluster_device, any(),
           "Device of `cluster` that the ranks use, if several match.")
      .only(for_searched_layouts());
  for (const LayoutField& field : layout_fields()) {
    if (field.name != kCutField) keys.push_back(layout_key(field));
  }
  SectionKeys<L>(keys, "parallel", &JobConfig::parallel)
      .add("offload", &L::offload,
           "`optimizer`: optimizer state is in host memory, and the update runs there. On the CPU this is "
           "the same memory, counted separately. Refused on GPUs. The results do not change.")
      .add("progress_thread", &L::progress_thread, any(),
           "On the CPU: a thread per rank moves data while the rank computes. Useful if cores are idle. The "
           "results do not change.")
      .add("pipeline_cut", &L::pipeline_cut,
           "\"flops\", \"parameters\", \"blocks\", \"measured\" or first blocks such as \"3, 6\"",
           "Partition of the blocks into pipeline stages. `flops`: minimizes the largest number of "
           "operations of a stage. `measured`: minimizes the largest time of a stage, with times measured on "
           "this machine. Both stay within the memory of a rank, by prediction. `parameters`: minimizes the "
           "largest number of parameters of a stage. `blocks`: equal numbers of blocks. \"3, 6\": first "
           "block of every stage (or chunk) except the first one; the embedding is block 0. The results do "
           "not change.")
      .add("reduction", &L::reduction,
           "`canonical`: the same bits on every layout. `fast`: the communication library's all-reduce. Over "
           "MPI on slow links, `fast` is faster with several ranks per host, and a tenth slower with one.")
      .add_string_or_number(
          "timeout_s", &L::timeout_s, "\"auto\" or 0 and more",
          "Time limit in seconds of an action of a step, an evaluation, a checkpoint, a part of the start or "
          "the end (including MPI_Init and MPI_Finalize), and of a wait in any of them. When it is exceeded, "
          "the job ends; the error names the rank that blocks the others and the current work of each rank "
          "of its machine. 0: no limit. `auto`: learns the limits of this run. Steps: twice the longest of "
          "the last 32, plus 1.5 s, after nine steps. Evaluations: twice the longest, plus 5 s, after three. "
          "Foreground checkpoints: ten times the longest, plus 60 s, after three. Before that, and "
          "everywhere else, the limit is 1800 s. Time in which all ranks were paused does not count. Waits "
          "for data count, so a file system that pauses for longer than the limit ends the job.")
      .add("device", &L::device,
           "Compute device. `auto`: GPUs if this build supports them and every rank's machine has them, "
           "otherwise the CPU.")
      .add("threads", &L::threads, from_to(0, 4096),
           "Host threads per rank, at most the cores that the rank may use. 0: the usable cores divided by "
           "the ranks on this machine.")
      .add("oversubscribe", &L::oversubscribe, any(),
           "Permit more `threads` than cores that a rank may use. Such threads wait for each other, and a "
           "step takes many times as long. The results do not change.")
      .add(
          "share_device", &L::share_device, any(),
          "Permit more ranks than GPUs on a machine, for tests of layouts: rank r of the machine uses GPU r "
          "modulo their number, and its share of the GPU's memory. Ranks take turns on a GPU and communicate "
          "over sockets, so a step takes many times as long. The results do not change. No effect on CPUs.")
      .add_bytes("memory_limit", &L::memory_limit, at_least(0),
                 "Memory limit of a rank in bytes, without library workspaces. A job that needs more is "
                 "refused before step 1. An integer, or a string such as \"12 GiB\". 0: the memory of the "
                 "device, or this rank's share of the machine.")
      .add("cuda_graph", &L::cuda_graph, any(),
           "Record a training step on the GPU, including exchanges between ranks, as a CUDA graph, and "
           "replay it: one launch per step. No effect on CPUs. The results do not change.")
      .add("tune_products", &L::tune_products, any(),
           "Before the first step, rank 0 measures cuBLASLt's algorithms for each matrix product of a step. "
           "An algorithm that takes at least 3 % less time than the heuristics' first choice replaces it, on "
           "all ranks. The choices are stored in products.json of the output folder and in checkpoints, and "
           "are read from there. Choices that were measured with another card or library version are "
           "measured again, with a warning. The last bits of the results depend on the choices. No effect on "
           "CPUs. Not yet run on a GPU.");
}

std::vector<ConfigKey> make_keys() {
  std::vector<ConfigKey> keys;
  add_model_keys(keys);
  add_data_keys(keys);
  add_train_keys(keys);
  add_lora_keys(keys);
  add_optimizer_keys(keys);
  add_precision_keys(keys);
  add_engine_keys(keys);
  add_output_keys(keys);
  return keys;
}

struct KeyTypeTexts {
  KeyType type;
  std::string_view brief, wanted;
};

const KeyTypeTexts& texts_of(KeyType type) {
  static constexpr KeyTypeTexts kTexts[] = {
      {KeyType::kBoolean, "boolean", "true or false"},
      {KeyType::kInteger, "integer", "an integer"},
      {KeyType::kBytes, "bytes", "a number of bytes, as an integer or as a string such as \"12 GiB\""},
      {KeyType::kNumber, "number", "a number"},
      {KeyType::kString, "string", "a string"},
      {KeyType::kNumberPair, "two numbers", "a list of two numbers"},
      {KeyType::kNumberTriple, "three numbers", "a list of three numbers"},
      {KeyType::kStringOrNumber, "string or number", "a string or a number"},
      {KeyType::kBooleanOrAuto, "boolean or string", "true, false or \"auto\""},
      {KeyType::kStringTable, "table of strings",
       "a table of strings, such as { name = \"text\" } (one entry: --set section.key.name=text)"},
      {KeyType::kStringList, "list of strings", "a list of strings, such as [\"text\"]"},
      {KeyType::kNumberTable, "table of numbers",
       "a table of numbers, such as { \"name\" = 0.5 } (one entry: --set section.key.name=0.5)"},
      {KeyType::kIntegerList, "list of integers", "a list of integers, such as [1, 2]"},
  };
  return *std::ranges::find(kTexts, type, &KeyTypeTexts::type);
}

}  // namespace

std::string_view describe(KeyType type) {
  return texts_of(type).wanted;
}

std::string_view type_text(KeyType type) {
  return texts_of(type).brief;
}

const KeyScope* ConfigKey::scope_without(const JobConfig& job) const {
  const auto found = std::ranges::find_if(scopes, [&](const KeyScope& scope) { return !scope.holds(job); });
  return found == scopes.end() ? nullptr : &*found;
}

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> keys = make_keys();
  return keys;
}

std::vector<std::string> config_sections() {
  std::vector<std::string> sections;
  for (const ConfigKey& key : config_keys()) {
    if (sections.empty() || sections.back() != key.section) sections.push_back(key.section);
  }
  return sections;
}

}  // namespace trireme
