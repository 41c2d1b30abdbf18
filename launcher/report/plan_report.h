// The results of `trireme plan`: the job's model, its batch, each rank's memory and traffic, and every
// action. Also the short text; plan_details.h has the rest.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/config/config.h"
#include "launcher/host/measured_card.h"
#include "launcher/job/block_profile.h"
#include "launcher/job/memory_fit.h"
#include "launcher/report/pipeline_report.h"
#include "launcher/report/plan_time.h"
#include "parallel/foresee/predict.h"
#include "parallel/layout/model_layout.h"
#include "parallel/plan/plan.h"

namespace trireme {

/// Memory and traffic of the largest rank, with other values of fields_by_memory().
struct AccumulationReport {
  Layout layout;
  std::int64_t peak_bytes = 0, sent_bytes = 0;
};

/// Ranks with equal plans, and therefore equal needs.
struct RankGroupReport {
  std::vector<int> ranks;
  StepPrediction prediction;  // of the first rank
};

struct PlanReport {
  JobConfig config;  // resolved, without "auto" for fields chosen by memory
  int num_ranks = 1;
  std::int64_t num_parameters = 0;
  std::vector<std::string> unit_names;
  std::string note;                 // about the device; may be empty
  std::string context;              // use of a card's context and libraries; empty: unknown
  std::string accumulation;         // see describe_accumulation()
  HostMap hosts;                    // of all ranks
  ExchangeChoice exchange;          // of the data axis
  std::string tensor_warning;       // see warn_of_tensor_over_hosts()
  std::vector<ChunkReport> chunks;  // of the pipeline
  std::string measured_on;          // source of the chunks' time shares: "cpu, 2 thread(s)"; empty: counted
  std::string cut_note;             // why a run may cut differently; may be empty
  double bubble_share = 0;          // pipeline bubble with these times, without communication time
  StepPlan plan;
  std::vector<RankGroupReport> groups;
  JobFit fit;                                           // for the group with the largest peak
  std::vector<AccumulationReport> other_accumulations;  // values that make a difference
  std::optional<PlanTime> time;                         // on a described cluster
};

/// Plans, validates and predicts a step of a resolved job on `num_ranks` ranks. Allocates nothing of the
/// model's size. Without parallel.memory_limit, the limit of a rank is its share of a machine like this one
/// with `ranks_per_machine` ranks; 0: all ranks. Throws Error(kInvalidInput) for a batch that does not
/// divide, and for more ranks per machine than ranks.
/// With a `card`, a job for CUDA has that card's memory, less context and libraries.
/// With a `cluster`, the step is also timed on it.
/// `profile` gives the stages' shares of the time; null: counted FLOPs (see block_work.h).
PlanReport make_plan_report(const JobConfig& config, int num_ranks, int ranks_per_machine = 0,
                            const BlockProfile* profile = nullptr, const MeasuredCard* card = nullptr,
                            const ClusterChoice* cluster = nullptr);

/// The memory limit of a rank on machines that are not known yet; its source names the assumption.
MemoryLimit planned_limit(const JobConfig& config, int num_ranks, int ranks_per_machine,
                          const MeasuredCard* card = nullptr);

/// One screen of text.
std::string to_text(const PlanReport& report);
/// All results, in bytes.
nlohmann::ordered_json to_json(const PlanReport& report);

}  // namespace trireme
