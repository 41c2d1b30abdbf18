#include "launcher/train/trained_model.h"

#include "launcher/families/diffusers_pipeline.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/families/model_family.h"
#include "launcher/state/initial_weights.h"
#include "launcher/state/run_checkpoint.h"
#include "launcher/state/run_state.h"
#include "launcher/train/weights_record.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/data/tokenizer_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TrainedModel open_transformers(const fs::path& folder) {
  TrainedModel model{.folder = folder};
  std::vector<std::string> notes;
  JobConfig& config = model.config;
  config.model = model_of_hf_folder(folder, &notes);
  config.model.init_from = folder.string();
  config.data.train =
      folder.string();  // every job names its training data, and these commands do not read it
  config.data.kind = family_of(config.model).data.kind;
  if (const auto diffusion = scheduler_of_pipeline(folder)) {
    config.diffusion = *diffusion;
  } else if (config.model.name == "unet") {
    log_warning(fmt::format(
        "{} has no scheduler/scheduler_config.json, which says what the network predicts: taken as "
        "the noise (epsilon) of a linear schedule. Give the folder of the pipeline, which holds unet "
        "and scheduler, if that is wrong",
        folder.string()));
  }
  // Folders of diffusers do not say that conditions were dropped. Stable Diffusion dropped a tenth.
  if (config.model.condition_width > 0) config.diffusion.class_dropout = 0.1;
  for (const std::string& note : notes) log_info(note);
  const fs::path preprocessor = folder / kHfPreprocessorFile;
  std::error_code error;
  if (config.data.kind == DataKind::kImages && fs::exists(preprocessor, error)) {
    const ImageRecord images = image_record_of_hf(preprocessor);
    config.data.image_size = images.size;
    config.data.mean = images.mean;
    config.data.stddev = images.stddev;
  }
  model.data = record_of_weights(folder, {.tokenizer = {.kind = "any"}, .images = ImageRecord()}).data;
  return model;
}

}  // namespace

void TrainedModel::load(Engine& engine, bool averages) const {
  if (checkpoint) return load_state(engine, folder, averages ? StateParts::kAverages : StateParts::kModel);
  load_model(engine, *open_initial_weights(config.model).source);
}

std::unique_ptr<Tokenizer> TrainedModel::tokenizer() const {
  if (!checkpoint) return load_tokenizer_folder(folder);
  TRIREME_CHECK(!data.tokenizer.kind.empty(),
                "{} does not say how its tokens were made: give --tokenizer bytes, or the path of its model",
                folder.string());
  return load_saved_tokenizer(data.tokenizer.kind, folder);
}

HfExtras TrainedModel::extras() const {
  return checkpoint ? read_run_state(*checkpoint).hf_extras : read_hf_extras(folder);
}

TrainedModel open_trained_model(const std::string& place, bool averages) {
  const fs::path folder = hf_folder_in(place).value_or(place);
  if (!holds_checkpoint(folder) && is_hf_folder(folder)) {
    TRIREME_CHECK(!averages, "--ema: {} is a folder of Hugging Face's format, which has no averages",
                  folder.string());
    return open_transformers(folder);
  }
  // GCC 12 destroys members twice where an initializer within the braces of an aggregate throws.
  Checkpoint checkpoint = open_checkpoint_or_run(place);
  if (averages) check_averages(checkpoint);
  RunState state = read_run_state(checkpoint);
  return {.folder = checkpoint.folder,
          .step = checkpoint.manifest.step,
          .config = std::move(state.config),
          .data = std::move(state.data),
          .checkpoint = std::move(checkpoint)};
}

}  // namespace trireme
