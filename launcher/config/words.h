// The words for values in a job file: one table per type. Parsing, the accepted values of a key, the resolved
// text and messages use these tables. Where a library names its values, the word is that name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/decoder_switches.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/param_store.h"
#include "parallel/reduce/grad_accumulator.h"
#include "runtime/base/device.h"
#include "runtime/base/error.h"
#include "runtime/data/document_dataset.h"
#include "runtime/data/image_dataset.h"
#include "runtime/diffusion/noise_schedule.h"
#include "runtime/loss_scaler.h"
#include "runtime/ops/rope.h"
#include "runtime/optim/lr_schedule.h"
#include "runtime/optim/optimizer.h"
#include "runtime/precision.h"
#include "runtime/tape.h"

namespace trireme {

enum class DataKind : std::uint8_t { kTokens, kDocuments, kChat, kImages, kDetection, kLatents, kSynthetic };
/// True if samples are read from files of tokens, which may be in a folder that `trireme data` wrote.
constexpr bool has_token_files(DataKind kind) {
  return kind == DataKind::kTokens || kind == DataKind::kDocuments || kind == DataKind::kChat;
}
/// True if a row holds separate texts, which data.pack packs.
constexpr bool is_of_documents(DataKind kind) {
  return kind == DataKind::kDocuments || kind == DataKind::kChat;
}

/// True if data.cache keeps decoded pictures.
constexpr bool keeps_pictures(DataKind kind) {
  return kind == DataKind::kImages || kind == DataKind::kDetection;
}

/// Training task of a text model.
enum class ModelTask : std::uint8_t { kMaskedTokens, kClassify };

/// The source of the layout: set by the keys of [parallel], or by a search before step 1.
enum class LayoutChoice : std::uint8_t { kGiven, kAuto };

/// The partition of the blocks into pipeline stages.
struct PipelineCut {
  enum class Kind : std::uint8_t { kFlops, kParameters, kBlocks, kMeasured, kListed };
  Kind kind = Kind::kFlops;
  std::vector<std::int64_t> firsts;  // kListed: the first block of every stage but the first
  bool operator==(const PipelineCut&) const = default;
};

struct LossScaleChoice {
  LossScaleConfig::Kind kind = LossScaleConfig::Kind::kDynamic;
  double scale = 0;  // kStatic
  bool operator==(const LossScaleChoice&) const = default;
};

/// The state that a run starts from.
struct Resume {
  enum class Kind : std::uint8_t { kAuto, kNever, kCheckpoint };
  Kind kind = Kind::kAuto;
  std::string path;  // kCheckpoint
  bool operator==(const Resume&) const = default;
};

/// The watchdog's limit.
struct TimeoutChoice {
  double seconds = 1800.0;  // 0: none
  bool learned = false;     // within steps; `seconds` applies elsewhere, and until enough steps were measured
  bool operator==(const TimeoutChoice&) const = default;
};

/// The steps whose actions are timed.
struct TraceSteps {
  std::int64_t first = 0, last = 0;  // 0: none
  std::int64_t every = 1;
  bool operator==(const TraceSteps&) const = default;

  bool has(std::int64_t step) const {
    return first > 0 && step >= first && step <= last && (step - first) % every == 0;
  }
  bool is_one() const { return first > 0 && last - first < every; }
};

/// Reaction to a spike of the loss or the gradient norm.
enum class OnSpike : std::uint8_t { kIgnore, kWarn, kSkip, kRollback };

/// The stored form of frozen weights of inner linear layers.
enum class FrozenWeights : std::uint8_t { kNumbers, kNf4 };

/// The GPUs whose sensors are read.
enum class GpuSensorChoice : std::uint8_t { kJob, kAll, kNone };

template <class T>
struct Word {
  T value;
  std::string_view word;
};

template <class T, std::size_t kCount>
std::array<Word<T>, kCount> with_names(const T (&values)[kCount]) {
  std::array<Word<T>, kCount> words;
  for (std::size_t i = 0; i < kCount; ++i) words[i] = {values[i], name(values[i])};
  return words;
}

/// The words of a type, in the order in which messages list them.
template <class T>
inline constexpr int kWords = 0;  // none

template <>
inline constexpr auto kWords<DataKind> = std::to_array<Word<DataKind>>({{DataKind::kTokens, "tokens"},
                                                                        {DataKind::kDocuments, "documents"},
                                                                        {DataKind::kChat, "chat"},
                                                                        {DataKind::kImages, "images"},
                                                                        {DataKind::kDetection, "detection"},
                                                                        {DataKind::kLatents, "latents"},
                                                                        {DataKind::kSynthetic, "synthetic"}});
template <>
inline constexpr auto kWords<ModelTask> =
    std::to_array<Word<ModelTask>>({{ModelTask::kMaskedTokens, "mlm"}, {ModelTask::kClassify, "classify"}});
template <>
inline constexpr auto kWords<QkNorm> = std::to_array<Word<QkNorm>>({{QkNorm::kNone, "none"},
                                                                    {QkNorm::kHead, "head"},
                                                                    {QkNorm::kWhole, "whole"}});
template <>
inline constexpr auto kWords<NormPosition> = std::to_array<Word<NormPosition>>(
    {{NormPosition::kBefore, "before"}, {NormPosition::kAfter, "after"}, {NormPosition::kBoth, "both"}});
template <>
inline constexpr auto kWords<MlpGate> = std::to_array<Word<MlpGate>>({{MlpGate::kSilu, "silu"},
                                                                      {MlpGate::kGelu, "gelu"}});
template <>
inline constexpr auto kWords<ops::RopeScaling::Kind> =
    std::to_array<Word<ops::RopeScaling::Kind>>({{ops::RopeScaling::Kind::kLlama3, "llama3"},
                                                 {ops::RopeScaling::Kind::kLinear, "linear"},
                                                 {ops::RopeScaling::Kind::kYarn, "yarn"}});
template <>
inline constexpr auto kWords<ViewOptions::Crop> =
    std::to_array<Word<ViewOptions::Crop>>({{ViewOptions::Crop::kRandomResized, "resized"},
                                            {ViewOptions::Crop::kPadded, "padded"},
                                            {ViewOptions::Crop::kCenter, "center"}});
template <>
inline constexpr auto kWords<ImageDataset::OnBadImage> = std::to_array<Word<ImageDataset::OnBadImage>>(
    {{ImageDataset::OnBadImage::kFail, "fail"}, {ImageDataset::OnBadImage::kSkip, "skip"}});
template <>
inline constexpr auto kWords<NoiseSchedule::Kind> =
    std::to_array<Word<NoiseSchedule::Kind>>({{NoiseSchedule::Kind::kLinear, "linear"},
                                              {NoiseSchedule::Kind::kScaledLinear, "scaled_linear"},
                                              {NoiseSchedule::Kind::kCosine, "cosine"}});
template <>
inline constexpr auto kWords<DiffusionTarget> =
    std::to_array<Word<DiffusionTarget>>({{DiffusionTarget::kNoise, "epsilon"},
                                          {DiffusionTarget::kVelocity, "v"},
                                          {DiffusionTarget::kSample, "x0"}});
template <>
inline constexpr auto kWords<DocumentDataset::TooLong> =
    std::to_array<Word<DocumentDataset::TooLong>>({{DocumentDataset::TooLong::kCutEnd, "cut_end"},
                                                   {DocumentDataset::TooLong::kCutBeginning, "cut_beginning"},
                                                   {DocumentDataset::TooLong::kDrop, "drop"}});
template <>
inline constexpr auto kWords<OptimizerConfig::Kind> =
    std::to_array<Word<OptimizerConfig::Kind>>({{OptimizerConfig::Kind::kAdamW, "adamw"},
                                                {OptimizerConfig::Kind::kSgd, "sgd"},
                                                {OptimizerConfig::Kind::kLion, "lion"},
                                                {OptimizerConfig::Kind::kMuon, "muon"}});
template <>
inline constexpr auto kWords<MuonScale> = std::to_array<Word<MuonScale>>(
    {{MuonScale::kOriginal, "original"}, {MuonScale::kMatchRmsAdamW, "match_rms_adamw"}});
template <>
inline constexpr auto kWords<LrSchedule::Kind> =
    std::to_array<Word<LrSchedule::Kind>>({{LrSchedule::Kind::kConstant, "constant"},
                                           {LrSchedule::Kind::kLinear, "linear"},
                                           {LrSchedule::Kind::kCosine, "cosine"},
                                           {LrSchedule::Kind::kOneCycle, "one_cycle"},
                                           {LrSchedule::Kind::kWsd, "wsd"}});
template <>
inline const auto kWords<PrecisionMode> = with_names({PrecisionMode::kFp32, PrecisionMode::kTf32,
                                                      PrecisionMode::kFp16, PrecisionMode::kBf16,
                                                      PrecisionMode::kFp8});
/// Dtype of gradients; null: the compute dtype.
template <>
inline constexpr auto kWords<std::optional<DType>> =
    std::to_array<Word<std::optional<DType>>>({{DType::kFloat32, "fp32"},
                                               {DType::kFloat16, "fp16"},
                                               {DType::kBFloat16, "bf16"},
                                               {std::nullopt, "compute"}});
template <>
inline constexpr auto kWords<LossScaleConfig::Kind> = std::to_array<Word<LossScaleConfig::Kind>>(
    {{LossScaleConfig::Kind::kDynamic, "dynamic"}, {LossScaleConfig::Kind::kOff, "off"}});
template <>
inline constexpr auto kWords<Offload> = std::to_array<Word<Offload>>({{Offload::kNone, "none"},
                                                                      {Offload::kOptimizer, "optimizer"}});
template <>
inline constexpr auto kWords<LayoutChoice> =
    std::to_array<Word<LayoutChoice>>({{LayoutChoice::kGiven, "given"}, {LayoutChoice::kAuto, "auto"}});
template <>
inline constexpr auto kWords<PipelineCut::Kind> =
    std::to_array<Word<PipelineCut::Kind>>({{PipelineCut::Kind::kFlops, "flops"},
                                            {PipelineCut::Kind::kParameters, "parameters"},
                                            {PipelineCut::Kind::kBlocks, "blocks"},
                                            {PipelineCut::Kind::kMeasured, "measured"}});
template <>
inline constexpr auto kWords<FrozenWeights> =
    std::to_array<Word<FrozenWeights>>({{FrozenWeights::kNumbers, "none"}, {FrozenWeights::kNf4, "nf4"}});
template <>
inline constexpr auto kWords<OnSpike> = std::to_array<Word<OnSpike>>({{OnSpike::kIgnore, "ignore"},
                                                                      {OnSpike::kWarn, "warn"},
                                                                      {OnSpike::kSkip, "skip"},
                                                                      {OnSpike::kRollback, "rollback"}});
template <>
inline constexpr auto kWords<GpuSensorChoice> = std::to_array<Word<GpuSensorChoice>>(
    {{GpuSensorChoice::kJob, "job"}, {GpuSensorChoice::kAll, "all"}, {GpuSensorChoice::kNone, "none"}});
template <>
inline constexpr auto kWords<Reduction> =
    std::to_array<Word<Reduction>>({{Reduction::kCanonical, "canonical"}, {Reduction::kFast, "fast"}});
/// Compute device; null: any available one.
template <>
inline constexpr auto kWords<std::optional<DeviceType>> = std::to_array<Word<std::optional<DeviceType>>>(
    {{std::nullopt, "auto"}, {DeviceType::kCpu, "cpu"}, {DeviceType::kCuda, "cuda"}});
template <>
inline constexpr auto kWords<Resume::Kind> =
    std::to_array<Word<Resume::Kind>>({{Resume::Kind::kAuto, "auto"}, {Resume::Kind::kNever, "never"}});

template <class T>
concept HasWords = requires {
  kWords<T>.size();
};

/// The word for a value in a job file.
template <HasWords T>
std::string to_word(const T& value) {
  for (const Word<T>& entry : kWords<T>) {
    if (entry.value == value) return std::string(entry.word);
  }
  return "?";
}
std::string to_word(const PipelineCut& cut);           // "3, 6" of a list
std::string to_word(const LossScaleChoice& choice);    // "1024"
std::string to_word(const std::optional<int>& count);  // nothing: "auto"
std::string to_word(const Resume& resume);
std::string to_word(const TimeoutChoice& timeout);  // "auto", "600"
std::string to_word(const TraceSteps& steps);       // "100", "100-200/20"

/// Sets `value` to the value of `word`. Returns false if the word is unknown.
template <HasWords T>
bool read_word(std::string_view word, T& value) {
  for (const Word<T>& entry : kWords<T>) {
    if (entry.word != word) continue;
    value = entry.value;
    return true;
  }
  return false;
}
bool read_word(std::string_view word, PipelineCut& cut);
bool read_word(std::string_view word, TimeoutChoice& timeout);
bool read_word(std::string_view word, LossScaleChoice& choice);    // positive, also in fp32
bool read_word(std::string_view word, std::optional<int>& count);  // 0 to 256
bool read_word(std::string_view word, Resume& resume);
bool read_word(std::string_view word, TraceSteps& steps);

/// Throws Error(kInvalidInput) if the word has no value.
template <class T>
T from_word(std::string_view word) {
  T value;
  TRIREME_CHECK(read_word(word, value), "\"{}\" is no value here", word);
  return value;
}

/// A type whose values are words, or some of whose values are words and the others text.
template <class T>
concept IsWord = requires(const T& value, T& read) {
  to_word(value);
  read_word(std::string_view(), read);
};

}  // namespace trireme
