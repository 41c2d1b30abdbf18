// Capabilities of this machine and this build: the report to attach to a question.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "launcher/host/all_reduce_bandwidth.h"
#include "launcher/host/device_rates.h"
#include "launcher/host/env.h"
#include "launcher/host/job_fabric.h"
#include "launcher/host/machine.h"
#include "launcher/host/name_lookup.h"

namespace trireme {

struct DoctorReport {
  std::string version, build_type, compiler, sanitizers;
  std::string cpu;
  std::vector<std::string> instruction_sets;
  CoreCounts cores;
  std::int64_t memory_bytes = 0;
  NameLookup localhost;
  std::vector<std::string> backends;  // in this build
  std::string onednn, mpi_standard;   // versions
  std::optional<DeviceReport> gpus;   // null: no CUDA in this build
  std::string nccl;                   // version; may be empty
  LaunchEnvironment launch;
  double sgemm_gflops = 0;                       // 0: not measured
  std::optional<DeviceRates> gpu_rates;          // of the first GPU; null: not measured, or no GPU
  std::optional<AllReduceBandwidth> all_reduce;  // null: not measured
  std::optional<JobFabric> fabric;               // of several ranks; null: not examined
};

/// The report without measurements.
DoctorReport examine(const LaunchEnvironment& launch);

/// GFLOP/s of the CPU backend in fp32 products of 1024 x 1024 x 1024, the best within a quarter of a second.
double measure_sgemm_gflops(int num_threads);

std::string to_text(const DoctorReport& report);
nlohmann::ordered_json to_json(const DoctorReport& report);

}  // namespace trireme
