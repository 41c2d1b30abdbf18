#include "launcher/train/state_to_save.h"

#include "launcher/data/token_data.h"

namespace trireme {

RunState state_to_save(const TrainingRun& run, bool evaluation_due) {
  RunState state{.step = run.engine->steps_done(),
                 .evaluation_due = evaluation_due,
                 .state_hash = run.agreed_state_hash(),
                 .loss_scale = run.engine->loss_scale_state(),
                 .config = run.options.config,
                 .arithmetic = run.options.arithmetic,
                 .products = run.products,
                 .data = run.record,
                 .hf_extras = run.hf_extras};
  state.data.samples = run.sample_at(state.step);
  if (run.log) {
    state.loss = run.log->loss();
    state.eval_loss = run.log->eval_loss();
  }
  return state;
}

std::optional<std::filesystem::path> tokenizer_model(const TrainingRun& run) {
  return run.prepared ? tokenizer_file_of(*run.prepared) : std::nullopt;
}

}  // namespace trireme
