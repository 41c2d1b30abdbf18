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
      .add("steps", &T::steps, count_from(1), "Optimizer steps of the whole run, resumed parts included.")
      .add("global_batch", &T::global_batch, count_from(1),
           "Samples a step over all ranks; a multiple of `micro_batch`. Where its micro-batches do not "
           "divide by "
           "the data ranks, some of them compute one less and wait; with `zero` 2 and 3 that asks for "
           "`parallel.accumulate_unsharded`, and `auto` takes it.")
      .add("micro_batch", &T::micro_batch, count_from(1),
           "Samples that a rank runs forward and backward at once; the rest is accumulated.")
      .add("seed", &T::seed, at_least(0), "Key of initial parameters, sample order and dropout.")
      .add("eval_every", &T::eval_every, count_from(0),
           "Steps between evaluations. 0: after the last step only.")
      .add("eval_batches", &T::eval_batches, count_from(0),
           "Global batches that one evaluation reads, the same ones each time: of tokens the first ones, of "
           "images samples spread evenly over all. 0: the whole evaluation set.")
      .add("freeze", &T::freeze, any(),
           "Patterns of parameters that keep their values, as [\"embedding*\", \"blocks.?.*\"]: `*` stands "
           "for "
           "any characters, `?` for one; names as in checkpoints. What is frozen has no gradient, no "
           "optimizer "
           "state and no exchange of either. A checkpoint resumes with the same patterns alone; "
           "`model.init_from` takes the weights of any.")
      .add("max_minutes", &T::max_minutes, at_least(0),
           "Minutes from the start of this run after which it has stopped, with a checkpoint and exit code "
           "75: "
           "for slices of a scheduler's time. It stops when another two of its longest steps and checkpoints "
           "would not fit any more, after one step at least. 0: no limit. Of `trireme run` it is the limit "
           "of all its attempts.")
      .add(
          "on_spike", &T::on_spike,
          "About a step whose loss or gradient norm exceeds the median of the 64 steps before by 10 "
          "deviations, "
          "half of the median at least: `warn`: say so. `skip`: leave the step out: no update, so that "
          "parameters, averages, running statistics, the optimizer's state and its count of updates stay as "
          "they are, on all layouts alike, while the step's number, the schedule of the learning rate and "
          "the "
          "data go on. After 8 in a row the next is taken, and those that are as high after it, too. On GPUs "
          "the host waits for each step. `rollback`: end the job before a checkpoint has the "
          "step, so that the same command, or `trireme run`, goes on from the one before. A fault's spike "
          "does "
          "not come again then; one that does is passed with a warning, and so are those of the next 64 "
          "steps. "
          "`rollbacks.jsonl` in the output folder has the steps.")
      .add("ema", &T::ema, from_to_below(0, 1),
           "Decay of an exponential moving average of the trained parameters, as 0.999: kept in fp32 beside "
           "the optimizer's state, moved after every update that is not skipped, from the initial parameters "
           "on. Evaluations are of the averages, and say so; `trireme eval`, `sample` and `export` take them "
           "with --ema. Running statistics stay what they are. 0: none.");
}

void add_lora_keys(std::vector<ConfigKey>& keys) {
  using M = ModelSection;
  const KeyScope with_targets{.text = "jobs with train.lora.targets",
                              .decided_by = "train.lora.targets",
                              .holds = [](const JobConfig& job) { return job.model.has_adapters(); },
                              .refuses_defaults = true};
  SectionKeys<M>(keys, "train.lora", &JobConfig::model)
      .add("targets", &M::lora_targets, any(),
           "Linear layers that get a low-rank adapter (LoRA), as [\"attention.qkv\", \"mlp.*\"]: names of "
           "their "
           "weights without \".weight\", whole or from a dot on, with patterns as of `train.freeze`; "
           "[\"*\"]: all "
           "inner ones. y = x W^T becomes x W^T + (alpha / rank) (x A^T) B^T. A and B are trained; all other "
           "parameters are frozen, but for the layer of classes with `model.task` = classify or "
           "`model.new_head`. Of packed weights (qkv, gate_up) the parts share A. Not with tensor chunks. "
           "Empty: "
           "no adapters.")
      .add("rank", &M::lora_rank, count_from(1),
           "Rows of A and columns of B, at most the smaller dim of a weight.")
      .only(with_targets)
      .add("alpha", &M::lora_alpha, above(0), "What the adapters add is scaled by alpha / rank.")
      .only(with_targets);
}

void add_optimizer_keys(std::vector<ConfigKey>& keys) {
  using O = OptimizerSection;
  using Kind = OptimizerConfig::Kind;
  SectionKeys<O>(keys, "optimizer", &JobConfig::optimizer)
      .add("name", &O::name,
           "Update rule. `lion` keeps one moment in place of two, and wants an `lr` 3 to 10 times smaller "
           "than "
           "`adamw`, with as much more `weight_decay`. `muon` makes the momentum of each matrix orthogonal, "
           "by five rounds of Newton-Schulz in fp32, and updates what is no matrix of two dimensions between "
           "the first block and the last (embeddings, head, biases, norms) as `adamw` does, with the same "
           "`lr` "
           "but for `adjust_lr` and `lr_scale`; it needs `parallel.zero` = 0 and `model.tensor_chunks` = 1.")
      .add("lr", &O::lr, above(0), "Peak learning rate.")
      .add("min_lr", &O::min_lr, at_least(0),
           "What the learning rate of all but `constant` comes down to: of `one_cycle` at "
           "the last step, of the others at the step that would follow it, as of PyTorch's CosineAnnealingLR "
           "with T_max = the steps after the warm-up. Of S steps, W of them warm-up, step s counted from 0 "
           "has min_lr + c (lr - min_lr) with p = (s - W) / (S - W) and c = 1 - p for `linear`, (1 + cos(pi "
           "p)) / 2 for `cosine`; from 0.4 to 0.04 in 10 steps the last has 0.076 and 0.0488.")
      .add("weight_decay", &O::weight_decay, at_least(0),
           "Added to the gradient for `sgd`, else decoupled; matrices only, not biases and norms.")
      .add("betas", &O::betas, from_to_below(0, 1),
           "Decay of both moments of `adamw`, and of what `muon` updates so; of `lion` that of the moment in "
           "the "
           "update, and of the moment, 0.9 and 0.99 where nothing is given.")
      .only(for_optimizers({Kind::kAdamW, Kind::kLion, Kind::kMuon}))
      .add("epsilon", &O::epsilon, above(0),
           "Added to the root of the second moment of `adamw`, and of what `muon` updates so.")
      .only(for_optimizers({Kind::kAdamW, Kind::kMuon}))
      .add("momentum", &O::momentum, from_to_below(0, 1),
           "`sgd`: 0 keeps no momentum buffer. `muon`: 0.95 where nothing is given.")
      .only(for_optimizers({Kind::kSgd, Kind::kMuon}))
      .add("nesterov", &O::nesterov, any(),
           "Nesterov's form of momentum. `muon`: true where nothing is given.")
      .only(for_optimizers({Kind::kSgd, Kind::kMuon}))
      .add(
          "adjust_lr", &O::adjust_lr,
          "Factor of the learning rate of a matrix of r rows and c columns, as of torch.optim.Muon's "
          "adjust_lr_fn. `original`: sqrt(max(1, r / c)). `match_rms_adamw`: 0.2 sqrt(max(r, c)), updates as "
          "large as those of `adamw`, for its `lr` and `weight_decay`.")
      .only(for_optimizers({Kind::kMuon}))
      .add("schedule", &O::schedule,
           "Course of the learning rate after the warm-up, down to `min_lr`. `one_cycle`: half a cosine up "
           "from lr / 25 within `warmup_steps` (0: 30 % of the steps), then half a cosine down. `wsd`: at "
           "`lr` until "
           "`decay_steps` before the end, then linearly down. Skipped steps count.")
      .add(
          "warmup_steps", &O::warmup_steps, count_from(0),
          "Steps in which the learning rate rises linearly, to `lr` at the step after them. Fewer than "
          "`train.steps`: else `lr` would never be reached, which is refused, and with `constant` warned of. "
          "Skipped steps count: the rate of a step is set before the device knows whether it is skipped.")
      .add("decay_steps", &O::decay_steps, count_from(0),
           "The last steps, in which the learning rate comes down. 0: a tenth of `train.steps`.")
      .only(for_schedule(LrSchedule::Kind::kWsd))
      .add("grad_clip", &O::grad_clip, at_least(0),
           "Gradients are scaled down to this global L2 norm. 0: no clipping.")
      .add("lr_scale", &O::lr_scale, above(0),
           "Factors of the learning rate by patterns of parameters, as { \"head*\" = 10.0 }; of several that "
           "match "
           "the longest counts. Patterns as of `train.freeze`. Decoupled weight decay is scaled with it, as "
           "the "
           "learning rate of a parameter group is in PyTorch.")
      .add("decay_scale", &O::decay_scale, at_least(0),
           "Factors of `weight_decay` by patterns of parameters, likewise, as { \"embedding*\" = 0.0 }. "
           "Without "
           "a pattern 1 for matrices, 0 for biases and norms.");
}

void add_precision_keys(std::vector<ConfigKey>& keys) {
  using P = PrecisionSection;
  SectionKeys<P>(keys, "precision", &JobConfig::precision)
      .add("mode", &P::mode,
           "What matrix products and attention compute in, and in fp16 and bf16 what parameters' working "
           "copies and activations are stored in. Masters, optimizer state and sums are fp32 in every mode. "
           "fp8: as bf16, but the products of linear layers inside of blocks read 8 bits, with scales from "
           "the "
           "largest magnitudes of the last 15 steps; on GPUs from sm_89 on. Not for models without such "
           "layers.")
      .add_string_or_number(
          "loss_scale", &P::loss_scale, "\"dynamic\", \"off\" or a number above 0",
          "Scaling of the loss's gradient in fp16: `dynamic` (GradScaler's rule), a fixed number, or `off` "
          "(the first gradient that overflows ends the job). No effect in the other modes.")
      .add("scale_init", &P::scale_init, above(0), "`dynamic`: the first scale.")
      .add("scale_growth", &P::scale_growth, at_least(1),
           "`dynamic`: factor after `scale_interval` clean steps.")
      .add("scale_backoff", &P::scale_backoff, between(0, 1),
           "`dynamic`: factor after a gradient that is not finite; that step is skipped.")
      .add("scale_interval", &P::scale_interval, count_from(1),
           "`dynamic`: clean steps in a row until the scale grows.")
      .add("min_scale", &P::min_scale, above(0), "`dynamic`: a scale below this ends the job.")
      .add("max_skips", &P::max_skips, count_from(1), "In fp16: so many skipped steps in a row end the job.")
      .add("grad_dtype", &P::grad_dtype,
           "What parameter gradients are accumulated and exchanged in; `compute`: as the mode. 16 bits halve "
           "their memory and traffic and cost accuracy; they need `parallel.reduction` = canonical.")
      .add("ops", &P::ops, any(),
           "Ops that compute in another dtype than the mode's, as { attention = \"fp32\" }: \"fp32\", and "
           "for `linear` and `attention` \"tf32\". Ops: " +
               names_of_ops() + ".");
}

void add_engine_keys(std::vector<ConfigKey>& keys) {
  using L = ParallelSection;
  SectionKeys<L>(keys, "parallel", &JobConfig::parallel)
      .add("layout", &L::choice,
           "`auto`: `train`, `run` and `plan` take the fastest layout that fits, as `trireme plan --search` "
           "finds it for the ranks at hand, and say which: " +
               names_of_searched() +
               ". Those that the job gives are kept. The results do not change, and a run may go "
               "on with another layout. `parallel = \"auto\"` in place of the section is short for it, as is "
               "`--set parallel=auto`, which also takes back what the file says of the layout.")
      .add("cluster", &L::cluster, any(),
           "What the search knows of the machine: a file of `trireme doctor --measure` or examples/clusters. "
           "Empty: a rough description, by a large product and a copy that are timed first, with links of 4 "
           "GB/s and 5 us within a host (GPUs: 20 GB/s), and 1.2 GB/s and 50 us between hosts.")
      .only(for_searched_layouts())
      .add("cluster_device", &L::cluster_device, any(),
           "The device of `cluster` that ranks have, where several come into question.")
      .only(for_searched_layouts());
  for (const LayoutField& field : layout_fields()) {
    if (field.name != kCutField) keys.push_back(layout_key(field));
  }
  SectionKeys<L>(keys, "parallel", &JobConfig::parallel)
      .add("offload", &L::offload,
           "`optimizer`: optimizer state lies in host memory and the update runs there. On the CPU that is "
           "the same memory, counted separately; refused on GPUs. The results do not change.")
      .add("progress_thread", &L::progress_thread, any(),
           "On the CPU: a thread a rank moves data while the rank computes. Worth it where cores are to "
           "spare. The results do not change.")
      .add("pipeline_cut", &L::pipeline_cut,
           "\"flops\", \"parameters\", \"blocks\", \"measured\" or first blocks such as \"3, 6\"",
           "Where the blocks are cut into stages. `flops`: the stage with the most arithmetic, counted, has "
           "as little as it can have. `measured`: the slowest stage is as fast as it can be, by times of "
           "this machine. Both within the memory of a rank, by prediction. `parameters`: the largest stage "
           "is as small as it can be. `blocks`: each has as many blocks. \"3, 6\": the first block of every "
           "stage (of every chunk) but the first; the embedding is block 0. The results do not change.")
      .add("reduction", &L::reduction,
           "`canonical`: the same bits on every layout. `fast`: the communication library's own all-reduce. "
           "Over MPI on slow links: faster with several ranks a host, a tenth slower with one.")
      .add_string_or_number(
          "timeout_s", &L::timeout_s, "\"auto\" or 0 and more",
          "Seconds that an action of a step, an evaluation, a checkpoint, a part of the start or the end "
          "(MPI_Init and MPI_Finalize, too), or a wait in one of them may take. Then the job ends with the "
          "name of the rank that holds the others up, and with what each rank of its machine is in. 0: no "
          "limit. `auto`: it is learned, within steps twice the longest of the last 32 and 1.5 s, once nine "
          "steps of this run are done; in evaluations twice the longest and 5 s, in checkpoints that are not "
          "written in the background ten times the longest and 60 s, once three are done; before that, and "
          "in "
          "all else (start, end), it is 1800. Time in which all ranks were paused does not count. For data "
          "that can be read in time: a file system that pauses for longer ends the job.")
      .add(
          "device", &L::device,
          "Where to compute. `auto`: GPUs where this build and every rank's machine have them, else the CPU.")
      .add("threads", &L::threads, from_to(0, 4096),
           "Host threads a rank, at most the cores it may use. 0: the cores it may use / ranks on this "
           "machine.")
      .add("oversubscribe", &L::oversubscribe, any(),
           "Take `threads` as they are, beyond the cores that a rank may use, too: such threads wait for "
           "each other, and a step takes many times as long. The results do not change.")
      .add_bytes("memory_limit", &L::memory_limit, at_least(0),
                 "Bytes a rank may hold, without library workspaces; a job that needs more is refused before "
                 "step 1. An integer, or a string such as \"12 GiB\". 0: what the device has, or this rank's "
                 "part of the machine.")
      .add("cuda_graph", &L::cuda_graph, any(),
           "Record a training step on the GPU, its exchanges between ranks included, and replay it from then "
           "on: one launch a step. No effect on CPUs. The results do not change.")
      .add("tune_products", &L::tune_products, any(),
           "Before the first step, rank 0 measures cuBLASLt's algorithms for each product of matrices of a "
           "step. One that takes 3 % less time than the heuristics' first takes its place, on all ranks. The "
           "choices are in products.json of the output folder and in checkpoints, and are read there; what "
           "was measured with another card or version of the library is measured again, with a warning. The "
           "results differ in last bits from those of other choices. No effect on CPUs; not yet run on a "
           "GPU.");
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
