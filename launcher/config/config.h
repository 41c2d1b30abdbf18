// A job as `trireme train` and `trireme plan` read it: one struct per section of the TOML file.
//
// The structs hold types and defaults. The meaning, unit and allowed values of each key are in one table,
// config_keys.cc. Parsing, the resolved text and the reference follow from it.
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
  std::string from;  // empty in a parsed job: its values have been copied to the other keys
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
  std::int64_t embedding_size = 0;
  std::int64_t vocab = 0;
  std::int64_t seq_len = 0;
  // Vision transformers only:
  std::int64_t image_size = 0;
  std::int64_t patch = 0;
  std::int64_t convs = 0;
  std::int64_t head_width = 0;
  bool qkv_bias = false;
  // Llamas only:
  QkNorm qk_norm = QkNorm::kNone;
  NormPosition norm_position = NormPosition::kBefore;
  bool norm_unit_offset = false;
  MlpGate mlp_gate = MlpGate::kSilu;
  double embedding_scale = 1.0;
  double query_scalar = 0.0;
  std::int64_t window = 0;
  std::string layer_pattern;
  ops::RopeScaling::Kind rope_scaling = ops::RopeScaling::Kind::kLlama3;
  double rope_attention_factor = 0.0;
  double rope_local_theta = 0.0;
  // UNets only:
  std::vector<std::int64_t> widths;            // empty: taken from size
  std::vector<std::int64_t> attention_levels;  // likewise
  std::int64_t norm_groups = 0;
  std::string projection;  // empty: taken from size
  std::string style;       // likewise
  std::string pool = "class";
  double norm_epsilon = 0.0;
  double stochastic_depth = 0.0;
  double rope_theta = 0.0;
  double rope_factor = 0.0;
  std::array<double, 2> rope_freq_factors = {1.0, 4.0};
  std::int64_t rope_original_context = 8192;
  double dropout = 0.0;
  std::optional<bool> tied;  // null: "auto"
  std::int64_t tensor_chunks = 1;
  std::int64_t loss_parts = 1;
  bool bias = true;
  // Families that denoise only. Their condition is seq_len vectors of condition_width.
  std::int64_t channels = 0;         // of a picture
  std::int64_t condition_width = 0;  // 0: no condition
  // [train.lora]: adapters are parameters of the model.
  std::vector<std::string> lora_targets;  // empty: none
  std::int64_t lora_rank = 8;
  double lora_alpha = 16.0;
  bool lora_rank_stabilized = false;
  FrozenWeights lora_quantize = FrozenWeights::kNumbers;

  bool has_adapters() const { return !lora_targets.empty(); }
};

struct DataSection {
  DataKind kind = DataKind::kTokens;
  std::string train;
  std::string eval;
  bool allow_eval_in_train = false;
  // Images only:
  std::int64_t image_size = 0;
  ViewOptions::Crop crop = ViewOptions::Crop::kRandomResized;
  std::array<double, 2> crop_area = {0.08, 1.0};
  std::array<double, 2> crop_aspect = {0.75, 1.3333333333333333};
  double center = 1.0;
  std::int64_t padding = 4;
  bool flip = true;
  std::array<double, 3> mean = {0.485, 0.456, 0.406};
  std::array<double, 3> stddev = {0.229, 0.224, 0.225};
  double mixup = 0.0;  // of detectors: a probability
  double mosaic = 0.0;
  // Detection only:
  std::string train_annotations, eval_annotations;  // empty: texts beside the pictures
  std::int64_t mosaic_off_steps = 0;
  std::vector<std::int64_t> multi_scale;  // empty: image_size
  std::int64_t multi_scale_steps = 10;
  std::array<double, 2> scale = {1.0, 1.0}, mixup_scale = {0.5, 1.5};
  double shift = 0.0;
  std::array<double, 3> hsv = {0.0, 0.0, 0.0};
  std::int64_t max_boxes = 120;
  std::optional<int> workers;  // null: "auto"
  double mask_probability = 0.15;
  std::int64_t mask_token = 0;
  bool pack = false;
  DocumentDataset::TooLong too_long = DocumentDataset::TooLong::kCutEnd;
  std::int64_t class_token = 0;
  std::int64_t cache = 0;
  ImageDataset::OnBadImage on_bad_image = ImageDataset::OnBadImage::kFail;
  std::int64_t max_pixels = 67108864;
};

// Families that denoise only. See [Note: diffusion].
struct DiffusionSection {
  NoiseSchedule::Kind schedule = NoiseSchedule::Kind::kLinear;
  std::array<double, 2> betas = {0, 0};  // 0: the schedule's default
  DiffusionTarget prediction = DiffusionTarget::kNoise;
  double min_snr_gamma = 0;  // 0: off
  double class_dropout = 0;
  // For sampling, as in diffusers' schedulers.
  std::int64_t steps_offset = 0;
  bool set_alpha_to_one = true;
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
  double ema_tau = 0.0;
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
  std::map<std::string, double> lr_scale, decay_scale;  // parameter pattern -> factor
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
  std::optional<DType> grad_dtype = DType::kFloat32;  // null: the dtype of the mode
  std::map<std::string, std::string> ops;             // op -> compute dtype, where it differs from the mode's
};

struct ParallelSection {
  LayoutChoice choice = LayoutChoice::kGiven;  // the key "layout"
  Layout layout;                               // without its cut: see pipeline_cut
  OpenFields open = fields_by_memory();        // fields of the layout that are chosen before step 1
  std::string cluster, cluster_device;         // with kAuto; empty: this machine, and its only device
  Offload offload = Offload::kNone;
  bool progress_thread = false;
  PipelineCut pipeline_cut;
  Reduction reduction = Reduction::kCanonical;
  HostMap hosts;  // of all ranks; no key: from the communicator, or `trireme plan --ranks-per-machine`
  TimeoutChoice timeout_s;
  std::optional<DeviceType> device;  // null: "auto"
  std::int64_t threads = 0;
  bool oversubscribe = false;
  bool share_device = false;
  std::int64_t memory_limit = 0;
  bool cuda_graph = false;
  bool tune_products = false;

  bool is_searched() const { return choice == LayoutChoice::kAuto; }
  /// Sets a field of the layout, which is then no longer open.
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
  DiffusionSection diffusion;
  TrainSection train;
  OptimizerSection optimizer;
  PrecisionSection precision;
  ParallelSection parallel;
  CheckpointSection checkpoint;
  LogSection log;
};

}  // namespace trireme
