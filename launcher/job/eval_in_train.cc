#include "launcher/job/eval_in_train.h"

#include <optional>
#include <vector>

#include "launcher/data/token_data.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/data/detection/detection_set.h"
#include "runtime/data/shared_files.h"
#include "runtime/diffusion/latent_dataset.h"

namespace trireme {
namespace {

// Some published data sets have a few training images in the evaluation set. Below one in kFewCopies this is
// only a warning.
constexpr std::int64_t kFewCopies = 100;

std::optional<SharedFiles> shared_files(const JobConfig& config, const JobData& data) {
  if (data.train_images != nullptr && data.eval_images != nullptr) {
    return find_shared_files(*data.train_images, *data.eval_images);
  }
  if (data.train_set != nullptr && data.eval_set != nullptr) {
    return find_shared_images([&](const auto& visit) { data.train_set->visit_files(visit); },
                              [&](const auto& visit) { data.eval_set->visit_files(visit); });
  }
  if (config.data.kind == DataKind::kLatents) {
    return find_shared_files(latent_shards(config.data.train), latent_shards(config.data.eval));
  }
  return find_shared_files(token_files(config.data.train, TokenPart::kTrain),
                           token_files(config.data.eval, TokenPart::kEval));
}

}  // namespace

void check_eval_not_in_train(const JobConfig& config, const JobData& data) {
  const bool compares = config.data.kind != DataKind::kSynthetic && !config.data.eval.empty();
  if (!compares || config.data.allow_eval_in_train) return;
  const std::optional<SharedFiles> shared = shared_files(config, data);
  if (!shared) return;
  const std::string text = fmt::format(
      "data.eval: {} file(s) of data.eval = \"{}\" are also in data.train = \"{}\", the first is {}{}",
      shared->count, config.data.eval, config.data.train, shared->eval.string(),
      shared->eval == shared->train ? ""
      : shared->is_copy             ? fmt::format(" (a copy of {})", shared->train.string())
                                    : fmt::format(" ({} there)", shared->train.string()));
  if (shared->is_copy && shared->count * kFewCopies < shared->num_compared) {
    log_warning(text);
    return;
  }
  throw Error(ErrorCode::kInvalidInput,
              "{}: an evaluation on training data says nothing about other data. Name other data, or set "
              "data.allow_eval_in_train = true",
              text);
}

}  // namespace trireme
