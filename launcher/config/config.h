// A job as `trireme train` and `trireme plan` read it: one struct a section of the TOML file.
//
// The structs hold types and defaults. What a key means, its unit and its allowed values stand once, in the
// table of config_keys.cc, from which parsing, the resolved text and the reference in keys.md are made.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/config/words.h"
#include "parallel/layout/layout.h"
#include "parallel/mesh/hosts.h"

namespace trireme {

struct ModelSection {
  std::string name = "gpt";
  std::string from;  // empty in a parsed job: what it says is in the other keys
  std::string init_from;
  bool new_head = false;
  ModelTask task = ModelTask::kMaskedTokens;
  std::int64_t classes = 0;
  double label_smoothing = 0.0;
  std::string size;  // empty: given by the keys below
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t seq_len = 0;
  // Of transformers of images:
  std::int64_t image_size = 0;
  std::int64_t patch = 0;
  std::int64_t convs = 0;
  std::string pool = "class";
  double norm_epsilon = 0.0;
  double stochastic_depth = 0.0;
  double rope_theta = 0.0;
  double rope_factor = 0.0;
  std::array<double, 2> rope_freq_factors = {1.0, 4.0};
  std::int64_t rope_original_context = 8192;
  double dropout = 0.0;
  std::optional<bool> tied;  // nothing: "auto"
  std::int64_t tensor_chunks = 1;
  bool bias = true;
  // [train.lora]: adapters are parameters of the model.
  std::vector<std::string> lora_targets;  // empty: none
  std::int64_t lora_rank = 8;
  double lora_alpha = 16.0;

  bool has_adapters() const { return !lora_targets.empty(); }
};

struct DataSection {
  DataKind kind = DataKind::kTokens;
  std::string train;
  std::string eval;
  bool allow_eval_in_train = false;
  // Of images:
  std::int64_t image_size = 0;
  ViewOptions::Crop crop = ViewOptions::Crop::kRandomResized;
  std::array<double, 2> crop_area = {0.08, 1.0};
  std::array<double, 2> crop_aspect = {0.75, 1.3333333333333333};
  double center = 1.0;
  std::int64_t padding = 4;
  bool flip = true;
  std::array<double, 3> mean = {0.485, 0.456, 0.406};
  std::array<double, 3> stddev = {0.229, 0.224, 0.225};
  double mixup = 0.0;
  double mosaic = 0.0;
  std::optional<int> workers;  // nothing: "auto"
  double mask_probability = 0.15;
  std::int64_t mask_token = 0;
  bool pack = false;
  std::int64_t class_token = 0;
  std::int64_t cache = 0;
  ImageDataset::OnBadImage on_bad_image = ImageDataset::OnBadImage::kFail;
  std::int64_t max_pixels = 67108864;
};

struct TrainSection {
  std::int64_t steps = 1000;
  std::int64_t global_batch = 32;
  std::int64_t micro_batch = 8;
  std::int64_t seed = 1;
  std::int64_t eval_every = 0;
  std::int64_t eval_batches = 0;
  std::vector<std::string> freeze;  // patterns of parameters
  double max_minutes = 0;
  OnSpike on_spike = OnSpike::kIgnore;
  double ema = 0.0;
};

struct OptimizerSection {
  OptimizerConfig::Kind name = OptimizerConfig::Kind::kAdamW;
  double lr = 3e-4;
  double min_lr = 0.0;
  double weight_decay = 0.1;
  std::array<double, 2> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  MuonScale adjust_lr = MuonScale::kOriginal;
  LrSchedule::Kind schedule = LrSchedule::Kind::kCosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  double grad_clip = 1.0;
  std::map<std::string, double> lr_scale, decay_scale;  // pattern of parameters -> factor
};

struct PrecisionSection {
  PrecisionMode mode = PrecisionMode::kFp32;
  LossScaleChoice loss_scale;
  double scale_init = 65536.0;
  double scale_growth = 2.0;
  double scale_backoff = 0.5;
  std::int64_t scale_interval = 2000;
  double min_scale = 1.0;
  std::int64_t max_skips = 50;
  std::optional<DType> grad_dtype = DType::kFloat32;  // nothing: as the mode
  std::map<std::string, std::string> ops;             // op -> what it computes in, other than the mode
};

struct ParallelSection {
  LayoutChoice choice = LayoutChoice::kGiven;  // the key "layout"
  Layout layout;                               // without its cut: see pipeline_cut
  OpenFields open = fields_by_memory();        // of the layout: chosen before step 1
  std::string cluster, cluster_device;         // of kAuto; empty: this machine, and the only one that fits
  Offload offload = Offload::kNone;
  bool progress_thread = false;
  PipelineCut pipeline_cut;
  Reduction reduction = Reduction::kCanonical;
  HostMap hosts;  // of every rank; not a key: the communicator's, or by `trireme plan --ranks-per-machine`
  TimeoutChoice timeout_s;
  std::optional<DeviceType> device;  // nothing: "auto"
  std::int64_t threads = 0;
  bool oversubscribe = false;
  std::int64_t memory_limit = 0;
  bool cuda_graph = false;
  bool tune_products = false;

  bool is_searched() const { return choice == LayoutChoice::kAuto; }
  /// Gives a field of the layout its value, which leaves it no longer open.
  void settle(std::string_view field, const LayoutValue& value) {
    layout_field(field).set(layout, value);
    open.erase(std::string(field));
  }
};

struct CheckpointSection {
  std::int64_t every = 0;
  std::int64_t keep = 2;
  std::int64_t verify_every = 0;
  bool background = false;
  bool partner = false;
  std::string partner_folder = "/dev/shm/trireme-{uid}";
  Resume resume;
  bool new_data = false;
};

struct LogSection {
  std::int64_t every = 10;
  bool phases = false;
  std::int64_t state_hash_every = 0;
  TraceSteps trace_step;
  std::string prometheus;  // empty: no file
  std::string listen;      // empty: no server
  GpuSensorChoice gpus = GpuSensorChoice::kJob;
  bool tensorboard = false;
};

struct JobConfig {
  ModelSection model;
  DataSection data;
  TrainSection train;
  OptimizerSection optimizer;
  PrecisionSection precision;
  ParallelSection parallel;
  CheckpointSection checkpoint;
  LogSection log;
};

/// Parses TOML text, then applies `overrides` ("section.key=value": the value is read as TOML, a bare word as
/// a string), then checks every value. `source` names the text in messages. Throws Error(kInvalidInput) with
/// source:line:column and the key, also for a key that has no effect with this model, unless its value
/// is the default; Error(kUnsupported) for values that this build does not have yet.
JobConfig parse_config(std::string_view toml, std::string_view source,
                       std::span<const std::string> overrides = {});

/// parse_config of what a run wrote: earlier builds wrote keys without effect, too.
JobConfig parse_written_config(std::string_view toml, std::string_view source);

/// parse_config of a file.
JobConfig load_config(const std::filesystem::path& path, std::span<const std::string> overrides = {});

/// Checks what involves several keys. parse_config has called it; for configurations made in code.
void check_config(const JobConfig& config);

/// Of a job to be trained: throws Error(kInvalidInput) where a schedule that comes down has no step after its
/// warm-up, and so never reaches optimizer.lr. With "constant" that is a warning, which is returned, as more
/// steps go on with the same course; else empty.
std::string check_schedule(const JobConfig& config);

/// A warning that adapters of a model that begins with random weights are trained; empty: they are not.
std::string doubt_about_adapters(const JobConfig& config);

/// A warning that recorded steps of a pipeline have not run on a device of this type; empty where they have.
std::string doubt_about_recorded_steps(const JobConfig& config, DeviceType device);

/// The resolved configuration: every key that has an effect, with its value. A pure function of `config`, so
/// ranks can compare it, and parse_config gives the same configuration back.
std::string to_toml(const JobConfig& config);

/// Compares resolved texts, one a rank. Empty when all agree; else a line for each rank and key that differ
/// from rank 0's, with both values.
std::string describe_difference(std::span<const std::string> texts_by_rank);

/// Changes of mathematics in a run that goes on from a checkpoint: "optimizer.lr (0.1, now 0.2)" for
/// each key of [model], [data], [train], [optimizer] and [precision] that differs.
std::vector<std::string> describe_changes(const JobConfig& before, const JobConfig& now);

}  // namespace trireme
