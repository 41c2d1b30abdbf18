// The findings of `trireme plan`: a job's model, its batch, each rank's memory and traffic, and every
// action; and how it says so in short (see plan_details.h for the rest).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/measured_card.h"
#include "launcher/report/block_profile.h"
#include "launcher/report/pipeline_report.h"
#include "launcher/report/plan_time.h"
#include "launcher/train/memory_fit.h"
#include "parallel/foresee/predict.h"
#include "parallel/layout/model_layout.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// The memory and traffic of the rank that needs most, with other values of fields_by_memory().
struct AccumulationReport {
  Layout layout;
  std::int64_t peak_bytes = 0, sent_bytes = 0;
};

/// Ranks that do the same, and so need the same.
struct RankGroupReport {
  std::vector<int> ranks;
  StepPrediction prediction;  // of the first of them
};

struct PlanReport {
  JobConfig config;  // resolved, without "auto" for what is kept over micro-batches
  int num_ranks = 1;
  std::int64_t num_parameters = 0;
  std::vector<std::string> unit_names;
  std::string note;                 // on the device; or empty
  std::string context;              // what a card's context and libraries take; or empty: not known
  std::string accumulation;         // see describe_accumulation()
  HostMap hosts;                    // of every rank
  ExchangeChoice exchange;          // of the data axis
  std::string tensor_warning;       // see warn_of_tensor_over_hosts()
  std::vector<ChunkReport> chunks;  // of the pipeline
  std::string measured_on;  // where their shares of the time are from: "cpu, 2 thread(s)"; empty: counted
  std::string cut_note;     // what may make a run's cut another one; or empty
  double bubble_share = 0;  // of the pipeline, by these times, if messages take none
  StepPlan plan;
  std::vector<RankGroupReport> groups;
  JobFit fit;                                           // of the group that needs most
  std::vector<AccumulationReport> other_accumulations;  // those that make a difference
  std::optional<PlanTime> time;                         // on a described cluster
};

/// Plans, validates and predicts a step of a resolved job on `num_ranks` ranks; allocates nothing of the
/// model's size. Without parallel.memory_limit a rank may use its part of a machine like this one, which
/// `ranks_per_machine` ranks share; 0: all of them. Throws Error(kInvalidInput) for a batch that does not
/// divide, and for more ranks per machine than ranks.
/// With a `card` a rank of a job for cuda may use that one's memory, less context and libraries.
/// With a `cluster` the step is timed on it, too.
/// The stages' shares of the time are those of `profile`; null: of the arithmetic (see block_work.h).
PlanReport make_plan_report(const JobConfig& config, int num_ranks, int ranks_per_machine = 0,
                            const BlockProfile* profile = nullptr, const MeasuredCard* card = nullptr,
                            const ClusterChoice* cluster = nullptr);

/// It is not known yet where the ranks will run: the source says what is assumed.
MemoryLimit planned_limit(const JobConfig& config, int num_ranks, int ranks_per_machine,
                          const MeasuredCard* card = nullptr);

/// One screen.
std::string to_text(const PlanReport& report);
/// All of it, to the byte.
std::string to_json(const PlanReport& report);

}  // namespace trireme
