#include "launcher/train/run_start.h"

#include <algorithm>
#include <numeric>

#include "launcher/config/field_keys.h"
#include "launcher/data/image_data.h"
#include "launcher/families/hf_exchange.h"
#include "launcher/host/agreement.h"
#include "launcher/host/device.h"
#include "launcher/host/machine.h"
#include "launcher/job/flop_rates.h"
#include "launcher/job/memory_fit.h"
#include "launcher/job/parameter_patterns.h"
#include "launcher/keys/job_file.h"
#include "launcher/state/initial_weights.h"
#include "launcher/train/chosen_resume.h"
#include "launcher/train/evaluation.h"
#include "launcher/train/monitor_start.h"
#include "launcher/train/product_measurement.h"
#include "launcher/train/run_data.h"
#include "launcher/train/shared_cores.h"
#include "launcher/train/shared_output.h"
#include "launcher/train/skipped_steps.h"
#include "launcher/train/start_lines.h"
#include "parallel/run/checkpoint_state.h"
#include "runtime/adapter.h"
#include "runtime/base/log.h"
#include "runtime/base/private_folder.h"
#include "runtime/data/detection/detection_set.h"

namespace trireme {
namespace {

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

// Sets the layout of the engine. Warns about untested recorded pipelines, and about more threads than cores.
void choose_engine_options(TrainingRun& run) {
  run.engine_options = engine_options(run.options.config, *run.options.blocks);
  run.engine_options.device = run.options.device;
  const std::string doubt = doubt_about_recorded_steps(run.options.config, run.options.device.type);
  if (!doubt.empty() && run.is_first()) log_warning(doubt);
  const CoreCounts cores = count_cores();
  if (run.options.config.parallel.threads == 0) {
    run.engine_options.threads = threads_per_rank(cores, run.options.launch.num_local_ranks);
    const std::string idle = describe_idle_cores(cores, run.options.launch.num_local_ranks);
    if (!idle.empty() && run.is_first()) log_warning(idle);
  } else if (!run.options.config.parallel.oversubscribe) {
    const std::string shared =
        describe_shared_cores(cores, run.options.launch.num_local_ranks, run.engine_options.threads);
    if (!shared.empty() && run.is_first()) log_warning(shared);
  }
}

void check_job(TrainingRun& run) {
  const JobConfig& config = run.options.config;
  batch_layout(config, run.comm().size());  // throws if the batch cannot be laid out
  // Ranks of one machine read the same files, so only one of them reads them whole.
  run.data = run.options.data ? *run.options.data
                              : open_data(config, /*read_whole=*/run.options.launch.local_rank == 0);
  if (has_token_files(config.data.kind)) run.prepared = find_prepared_data(config.data.train);
  run.prediction = check_memory(counted_on(config, run.options.device.type), run.options.blocks,
                                run.comm().size(), run.comm().rank(),
                                memory_limit(config, run.options.device, run.options.launch.num_local_ranks));
}

// Chunks and parts determine the order of sums, so a run cannot continue with another number.
void check_chunks(const TrainingRun& run) {
  const auto check = [&run](const char* key, std::int64_t ModelSection::*number) {
    const std::int64_t before = run.resumed.config.model.*number, now = run.options.config.model.*number;
    TRIREME_CHECK(before == now,
                  "{} was made with {} = {}, and the job has {}: another mathematics, whose results "
                  "would be those of neither. Set it to {}, or begin anew with model.init_from = \"{}\"",
                  run.resume_folder.string(), key, before, now, before,
                  (run.resume_folder / kModelFile).string());
  };
  check("model.tensor_chunks", &ModelSection::tensor_chunks);
  check("model.loss_parts", &ModelSection::loss_parts);
}

void read_resumed(TrainingRun& run) {
  if (run.resume_folder.empty()) return;
  run.resumed =
      read_run_state(run.partner && run.partner->from ? *run.partner->from
                                                      : open_checkpoint(run.resume_folder, Verify::kSizes));
  run.hf_extras = run.resumed.hf_extras;
  check_chunks(run);
  check_same_training(run.resumed.config, run.options.config, *run.options.blocks,
                      run.resume_folder.string());
}

void claim_output(TrainingRun& run) {
  if (!run.is_first() || run.lock) return;
  prepare_output_folder(run.out.root);
  if (all_can_exchange(run.out.root))
    log_warning(fmt::format(
        "every user can lay links into the output folder {}, or exchange it for another one: it is "
        "writable by all (chmod o-w), or its parent is without the sticky bit (chmod +t)",
        run.out.root.string()));
  run.lock = std::make_unique<FolderLock>(run.out.root);
}

void keep_pictures(TrainingRun& run) {
  Buffer memory = run.engine->data_cache();
  const std::int64_t wanted = run.engine_options.data_cache_bytes;
  if (!memory.defined() && wanted > 0 && !traits(run.engine_options.device.type).host_memory) {
    // The engine accounts for the GPU's memory; this buffer is in host memory.
    const Context host = Context::create({DeviceType::kCpu, 0}, 1);
    memory = Buffer(host.allocator, static_cast<std::size_t>(wanted), MemoryCategory::kData);
  }
  if (!memory.defined()) return;
  const auto pictures = std::make_shared<PictureMemory>(memory);
  for (const auto& images : {run.data.train_images, run.data.eval_images}) {
    if (images) images->keep_in(pictures);
  }
  for (const auto& set : {run.data.train_set, run.data.eval_set}) {
    if (set) set->keep_in(pictures);
  }
}

// Measures the peak for [Note: MFU], before the engine takes most of the device's memory.
void measure_peak(TrainingRun& run) {
  const EngineOptions& options = run.engine_options;
  double rate = 0;
  run_stage(run.comm(), [&] {
    run.step_flops =
        step_operations({run.options.blocks, options, sample_spec(run.options.config), run.comm().size()});
  });
  // All ranks at once, as they may share a device or the cores of a machine.
  run_stage(run.comm(),
            [&] { rate = measure_product_rate(options.device, options.threads, options.precision); });
  const std::vector<double> rates = run.comm().all_gather_value(rate);
  if (std::ranges::min(rates) > 0) run.peak_flops = std::accumulate(rates.begin(), rates.end(), 0.0);
}

void build_engine(TrainingRun& run) {
  run.comm().progress_in_background(run.options.config.parallel.progress_thread);
  run.engine = std::make_unique<Engine>(run.options.blocks, run.options.comm, run.engine_options);
  keep_pictures(run);
}

void load_initial_model(TrainingRun& run) {
  const ModelSection& model = run.options.config.model;
  const Watchdog::Scope watch = run.watched("the reading of " + model.init_from);
  InitialWeights weights;
  run_stage(run.comm(), [&] {
    try {
      weights = open_initial_weights(model, classes_of_training(run.options.config, run.data));
      check_model(*run.engine, *weights.source);
    } catch (const TensorMismatch& mismatch) {
      const std::string remedy = describe_remedy(model, mismatch);
      throw mismatch.saying(
          fmt::format("model.init_from: {}{}{}", mismatch.what(), remedy.empty() ? "" : "; ", remedy));
    } catch (const Error& error) {
      throw error.saying(fmt::format("model.init_from: {}", error.what()));
    }
  });
  run_stage(run.comm(), [&] { load_model(*run.engine, *weights.source); });
  run.new_tensors = new_tensors(*run.engine, *weights.source);
  run.record.class_names = std::move(weights.class_names);
  run.hf_extras = std::move(weights.hf_extras);
  for (const auto& notes : {weights.notes, weights.source->notes()}) {
    run.import_notes.insert(run.import_notes.end(), notes.begin(), notes.end());
  }
  std::erase_if(run.new_tensors, is_adapter_name);  // adapters are not in these weights
  run.agreed_state_hash();                          // checks that all ranks read the same file
}

void restore(TrainingRun& run) {
  if (run.resume_folder.empty()) {
    if (!run.options.config.model.init_from.empty()) load_initial_model(run);
    return;
  }
  const Watchdog::Scope watch = run.watched("the restoring of " + run.resume_folder.string());
  Communicator& comm = run.comm();
  run_stage(comm, [&] { load_state(*run.engine, run.resume_folder, StateParts::kAll); });
  run.engine->set_steps_done(run.resumed.step);
  if (run.resumed.loss_scale) {
    const PrecisionSection &before = run.resumed.config.precision, &now = run.options.config.precision;
    if (before.loss_scale != now.loss_scale || before.scale_init != now.scale_init) {
      // Changed loss-scale settings reset the scaler.
      *run.resumed.loss_scale = {.updates = run.resumed.loss_scale->updates};
    }
    run.engine->set_loss_scale_state(*run.resumed.loss_scale);
  }
  if (run.resume_folder.parent_path() == run.store.root()) run.last_saved_step = run.resumed.step;
  const std::string hash = run.agreed_state_hash();
  // The saved hash includes fp8 histories, which other modes do not use.
  const bool leaves_fp8 = run.resumed.config.precision.mode == PrecisionMode::kFp8 &&
                          run.options.config.precision.mode != PrecisionMode::kFp8;
  // Averages that begin or end with this resume are in only one of the hashes.
  const bool changes_averages = (run.resumed.config.train.ema > 0) != (run.options.config.train.ema > 0);
  if (hash == run.resumed.state_hash || leaves_fp8 || changes_averages) return;
  throw AgreedError(
      ErrorCode::kInvalidInput,
      fmt::format("{}: the restored state has the hash {}, the manifest says {}{}",
                  run.resume_folder.string(), hash, run.resumed.state_hash,
                  run.partner && run.partner->from ? "; remove " + run.partner->ring.folder.path().string() +
                                                         " on all hosts to go on from the file system"
                                                   : ""));
}

void open_batches(TrainingRun& run) {
  // Middle stages of a pipeline read no batches.
  const int stage = run.engine->groups().coord()[Axis::kPipeline],
            last_stage = run.engine->groups().mesh.size(Axis::kPipeline) - 1;
  const bool reads = stage == 0 || stage == last_stage;
  const SampleSpec sample = sample_spec(run.options.config);
  run.batches = std::make_unique<TrainingBatches>(
      TrainingBatches::Options{.dataset = run.data.train,
                               .batch = run.engine->batch(),
                               .data_rank = run.engine->groups().coord()[Axis::kData],
                               .first_step = run.engine->steps_done(),
                               .first_sample = run.first_sample,
                               .num_steps = reads ? run.num_steps() : 0,
                               .workers = num_data_workers(run.options.config, run.engine_options.threads),
                               .sample_bytes = sample.input.num_elems() * size_bytes(sample.input_dtype)});
}

void open_log(TrainingRun& run) {
  write_text_file(run.out.config(), to_toml(run.options.config));
  const RunSummary summary = initial_summary(run);
  auto monitor = start_monitor(run, summary);
  const std::string url = monitor && monitor->server() ? monitor->server()->url() : "";
  run.log =
      std::make_unique<RunLog>(RunLog::Options{.out = run.out,
                                               .resume_step = run.engine->steps_done(),
                                               .evaluates_again = run.resumed.evaluation_due && run.data.eval,
                                               .num_steps = run.num_steps(),
                                               .log_every = run.options.config.log.every,
                                               .terminal = output_is_terminal(run.options.launch),
                                               .phases = run.options.config.log.phases,
                                               .summary = summary,
                                               .monitor = std::move(monitor),
                                               .observe = run.options.hooks.on_metrics,
                                               .is_quiet = run.options.hooks.is_quiet});
  run.watch = std::make_unique<OutputWatch>(run.out);
  run.log->line(describe_start(run));
  if (!url.empty()) run.log->line("metrics at " + url);
}

void note_start(Communicator& comm, RecordWriter& records) {
  const std::vector<std::string> hosts = comm.all_gather_strings(host_name());
  records.claim_output();
  if (comm.rank() == 0)
    records.write({.event = RunRecord::Event::kStarted, .time_ns = unix_time_ns(), .hosts = hosts});
}

void note_resume(const TrainingRun& run) {
  if (run.options.records == nullptr) return;
  const bool from_memory = run.partner && run.partner->from;
  run.options.records->write({.event = RunRecord::Event::kResumed,
                              .time_ns = unix_time_ns(),
                              .step = run.resumed.step,
                              .memory = from_memory ? run.partner->description : ""});
}

}  // namespace

// An allocator's message lacks only the keys of the job.
void TrainingRun::with_memory_advice(const std::function<void()>& stage) const {
  try {
    stage();
  } catch (const AgreedError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    const std::string advice =
        describe(advise(prediction.memory.at_peak, trireme::engine_options(options.config, *options.blocks)),
                 batch_layout(options.config, comm().size()).data_ranks);
    ErrorFacts facts = error.facts();
    facts.remedy = advice;
    throw error
        .saying(fmt::format("{}; a step needs {}: {}", error.what(),
                            format_bytes(prediction.memory.peak_total), advice))
        .about(std::move(facts));
  }
}

std::string TrainingRun::agreed_state_hash() const {
  const std::uint64_t mine = engine->state_hash();
  const std::vector<std::uint64_t> hashes = comm().all_gather_value(mine);
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    throw AgreedError(
        Error(ErrorCode::kRuntime,
              fmt::format("the state after step {} differs between ranks: rank {} has {}, rank 0 has {}: a "
                          "fault of memory or of the network, or different builds; go on from a checkpoint",
                          engine->steps_done(), rank, hash_text(hashes[rank]), hash_text(hashes[0])))
            .about({.rank = static_cast<int>(rank)}));
  }
  return hash_text(mine);
}

TrainingRun start_run(RunOptions options) {
  const OutputFolder out{options.out};
  // Declared after `run`, which holds a lock in the folder.
  RefusedFolder refused(options.comm->rank() == 0 ? options.out : "");
  TrainingRun run{.options = std::move(options), .out = out, .store = CheckpointStore(out.checkpoints())};
  Communicator& comm = run.comm();
  choose_engine_options(run);
  {
    const Watchdog::Scope watch = run.watched("the checks before the first step");
    run_stage(comm, [&] { check_job(run); });
    check_same_data(comm, run.data.fingerprint_text());
    sleep_where_cores_are_shared(comm, run.engine_options.threads);
  }
  {
    const Watchdog::Scope watch = run.watched("the choice of a checkpoint");
    // Claimed first: the memory of hosts belongs to the output folder, and no other job may use it now.
    if (run.options.config.checkpoint.partner) run_stage(comm, [&] { claim_output(run); });
    choose_resume(run);
    run_stage(comm, [&] { read_resumed(run); });
    meet_data(run);
    run_stage(comm, [&] {
      if (run.data.eval) check_has_targets(evaluation_of(run.options.config, run.data.eval));
    });
    run_stage(comm, [&] { claim_output(run); });
    claim_partner_folder(run);
    if (run.options.records != nullptr) note_start(comm, *run.options.records);
    if (comm.size() > 1) check_shared_output(comm, run.out.root);
  }
  {
    const Watchdog::Scope watch = run.watched("the measurement of products");
    choose_products(run);
  }
  {
    const Watchdog::Scope watch = run.watched("the measurement of the device's peak");
    measure_peak(run);
  }
  {
    const Watchdog::Scope watch = run.watched("the making of the engine");
    run_stage(comm, [&] { run.with_memory_advice([&] { build_engine(run); }); });
  }
  restore(run);
  end_partner_start(run);
  {
    const Watchdog::Scope watch = run.watched("the opening of the log");
    run_stage(comm, [&] {
      open_batches(run);
      if (!run.is_first()) return;
      open_log(run);
      log_start(run);
      if (!run.resume_folder.empty()) log_resume(run);
      if (!run.resume_folder.empty()) note_resume(run);
      log_data(run);
    });
  }
  refused.keep();
  return run;
}

}  // namespace trireme
