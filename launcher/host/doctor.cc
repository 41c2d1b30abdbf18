#include "launcher/host/doctor.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "kernels/backend.h"
#include "launcher/host/build_info.h"
#include "launcher/host/device.h"
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"
#include "runtime/context.h"

namespace trireme {
namespace {

std::string describe_launch(const LaunchEnvironment& launch) {
  if (!launch.under_mpi()) return "alone, one rank";
  return fmt::format("{}, rank {} of {}", launch.launcher, launch.rank, launch.num_ranks);
}

std::string describe_cores(const CoreCounts& cores) {
  std::string text = fmt::format("{} usable of {}", cores.usable(), cores.machine);
  if (cores.affinity < cores.machine) text += fmt::format(", bound to {}", cores.affinity);
  if (cores.quota) text += fmt::format(", control group allows {:.3g}", *cores.quota);
  return text;
}

template <class Line>
void describe_gpus(const DeviceReport& gpus, const Line& line) {
  if (gpus.devices.empty()) line("GPUs", "none: " + gpus.problem + "; `device = \"auto\"` uses the CPU");
  for (std::size_t i = 0; i < gpus.devices.size(); ++i) {
    const DeviceReport::Card& card = gpus.devices[i];
    line(i == 0 ? "GPUs" : "",
         fmt::format("{}: {}, {}, {}, {} multiprocessors{}", i, card.name, card.architecture,
                     format_bytes(card.memory_bytes), card.num_multiprocessors,
                     card.pci_bus_id.empty() ? "" : ", PCI " + card.pci_bus_id));
  }
  for (std::size_t i = 0; i < gpus.links.size(); ++i) line(i == 0 ? "GPU links" : "", gpus.links[i]);
  for (const auto& [library, version] : gpus.versions) line(library, version);
}

template <class Line>
void describe_all_reduce(const AllReduceBandwidth& report, const Line& line) {
  if (!report.problem.empty()) line("all-reduce", "not measured: " + report.problem);
  for (std::size_t i = 0; i < report.sizes.size(); ++i) {
    const AllReduceBandwidth::Size& size = report.sizes[i];
    line(i == 0 ? "all-reduce" : "",
         fmt::format("{} ranks over {} ({}), {}: {:.2f} GB/s bus, {:.2f} GB/s algorithm, {:.3f} ms",
                     report.num_ranks, report.communicator, report.device, format_bytes(size.bytes),
                     size.bus_gb_per_s, size.algorithm_gb_per_s, size.ms));
  }
}

template <class Line>
void describe_rates(const DeviceRates& rates, const Line& line) {
  std::vector<std::string> products;
  for (const auto& [math, tflops] : rates.products)
    products.push_back(fmt::format("{} {:.1f}", math, tflops));
  line("GPU 0 rates",
       fmt::format("TFLOP/s: {}; copies {:.0f} GB/s, from the host {:.1f} GB/s; {:.2f} s to start",
                   fmt::join(products, ", "), rates.copy_gb_per_s, rates.upload_gb_per_s, rates.start_s));
  line("", "context and libraries: " + format_bytes(rates.context_bytes));
}

nlohmann::ordered_json lookup_json(const NameLookup& lookup) {
  return {{"lookup_s", lookup.seconds}, {"problem", lookup.problem}};
}

nlohmann::ordered_json rates_json(const std::optional<DeviceRates>& rates) {
  nlohmann::ordered_json json;
  if (!rates) return json;  // null
  for (const auto& [math, tflops] : rates->products) json["tflops"][std::string(math)] = tflops;
  json["copy_gb_per_s"] = rates->copy_gb_per_s;
  json["upload_gb_per_s"] = rates->upload_gb_per_s;
  json["start_s"] = rates->start_s;
  json["context_bytes"] = rates->context_bytes;
  return json;
}

nlohmann::ordered_json all_reduce_json(const std::optional<AllReduceBandwidth>& report) {
  nlohmann::ordered_json json;
  if (!report) return json;  // null
  json = {{"communicator", report->communicator},
          {"device", report->device},
          {"ranks", report->num_ranks},
          {"problem", report->problem},
          {"sizes", nlohmann::ordered_json::array()}};
  for (const AllReduceBandwidth::Size& size : report->sizes) {
    json["sizes"].push_back({{"bytes", size.bytes},
                             {"ms", size.ms},
                             {"algorithm_gb_per_s", size.algorithm_gb_per_s},
                             {"bus_gb_per_s", size.bus_gb_per_s}});
  }
  return json;
}

nlohmann::ordered_json gpus_json(const DoctorReport& report) {
  nlohmann::ordered_json json;
  if (!report.gpus) return json;  // null
  json["devices"] = nlohmann::ordered_json::array();
  for (const DeviceReport::Card& card : report.gpus->devices) {
    json["devices"].push_back({{"name", card.name},
                               {"pci_bus_id", card.pci_bus_id},
                               {"architecture", card.architecture},
                               {"memory_bytes", card.memory_bytes},
                               {"multiprocessors", card.num_multiprocessors}});
  }
  json["problem"] = report.gpus->problem;
  json["links"] = report.gpus->links;
  for (const auto& [library, version] : report.gpus->versions) json["versions"][library] = version;
  json["versions"]["NCCL"] = report.nccl;
  return json;
}

}  // namespace

DoctorReport examine(const LaunchEnvironment& launch) {
  DoctorReport report{.version = build_info::kVersion,
                      .build_type = build_info::kBuildType,
                      .compiler = build_info::kCompiler,
                      .sanitizers = build_info::kSanitizers,
                      .cpu = cpu_model(),
                      .instruction_sets = instruction_sets(),
                      .cores = count_cores(),
                      .memory_bytes = total_memory_bytes(),
                      .localhost = look_up_name("localhost"),
                      .onednn = build_info::kOneDnn,
                      .mpi_standard = build_info::kMpiStandard,
                      .launch = launch};
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kCuda, DeviceType::kMeta}) {
    if (in_this_build(type)) report.backends.emplace_back(name(type));
  }
  if (in_this_build(DeviceType::kCuda)) report.gpus = backend_for(DeviceType::kCuda).examine_devices();
  report.nccl = nccl_version();
  return report;
}

double measure_sgemm_gflops(int num_threads) {
  constexpr std::int64_t kSize = 1024;
  using Clock = std::chrono::steady_clock;
  const Context ctx = Context::create({DeviceType::kCpu, 0}, num_threads);
  const Tensor a = ctx.zeros({kSize, kSize}), b = ctx.zeros({kSize, kSize}), d = ctx.empty({kSize, kSize});
  const MatmulArgs args{.a = a, .b = b, .d = d};
  ctx.run(args);  // warm-up: fills caches per shape
  double best_s = 1e9;
  const auto start = Clock::now();
  do {
    const auto before = Clock::now();
    ctx.run(args);
    best_s = std::min(best_s, std::chrono::duration<double>(Clock::now() - before).count());
  } while (Clock::now() - start < std::chrono::milliseconds(250));
  return 2.0 * kSize * kSize * kSize / best_s * 1e-9;
}

std::string to_text(const DoctorReport& report) {
  std::string text;
  const auto line = [&text](std::string_view key, std::string_view value) {
    text += fmt::format("{:<18} {}\n", key, value);
  };
  line("trireme", report.version);
  line("build", fmt::format("{}, {}{}", report.build_type, report.compiler,
                            report.sanitizers.empty() ? "" : ", sanitizers: " + report.sanitizers));
  line("backends", fmt::format("{}", fmt::join(report.backends, ", ")));
  if (!report.gpus) line("", "cuda: not in this build; jobs compute on the CPU");
  line("cpu", report.cpu);
  line("instruction sets", fmt::format("{}", fmt::join(report.instruction_sets, " ")));
  line("cores", describe_cores(report.cores));
  line("memory", format_bytes(report.memory_bytes));
  line("localhost", describe_localhost(report.localhost));
  if (report.sgemm_gflops > 0) {
    line("sgemm", fmt::format("{:.0f} GFLOP/s on {} threads", report.sgemm_gflops, report.cores.usable()));
  }
  if (report.gpus) describe_gpus(*report.gpus, line);
  if (report.gpu_rates) describe_rates(*report.gpu_rates, line);
  if (!report.nccl.empty()) line("NCCL", report.nccl);
  line("oneDNN", report.onednn);
  line("MPI", fmt::format("standard {}; started {}", report.mpi_standard, describe_launch(report.launch)));
  if (report.fabric) {
    for (const auto& [key, value] : describe(*report.fabric)) line(key, value);
  }
  if (report.all_reduce) describe_all_reduce(*report.all_reduce, line);
  if (report.fabric && report.all_reduce && !report.all_reduce->sizes.empty()) {
    line("link", describe_link(*report.fabric, report.all_reduce->sizes.back().bus_gb_per_s));
  }
  line("sentencepiece", "yes");
  return text;
}

nlohmann::ordered_json to_json(const DoctorReport& report) {
  using Json = nlohmann::ordered_json;
  return {{"version", report.version},
          {"build_type", report.build_type},
          {"compiler", report.compiler},
          {"sanitizers", report.sanitizers},
          {"backends", report.backends},
          {"cpu", report.cpu},
          {"instruction_sets", report.instruction_sets},
          {"cores",
           {{"usable", report.cores.usable()},
            {"machine", report.cores.machine},
            {"affinity", report.cores.affinity},
            {"quota", report.cores.quota ? Json(*report.cores.quota) : Json(nullptr)}}},
          {"memory_bytes", report.memory_bytes},
          {"localhost", lookup_json(report.localhost)},
          {"sgemm_gflops", report.sgemm_gflops > 0 ? Json(report.sgemm_gflops) : Json(nullptr)},
          {"gpu_rates", rates_json(report.gpu_rates)},
          {"fabric", report.fabric ? to_json(*report.fabric) : Json(nullptr)},
          {"all_reduce", all_reduce_json(report.all_reduce)},
          {"gpus", gpus_json(report)},
          {"onednn", report.onednn},
          {"mpi_standard", report.mpi_standard},
          {"sentencepiece", true},
          {"launch",
           {{"launcher", report.launch.launcher},
            {"rank", report.launch.rank},
            {"ranks", report.launch.num_ranks}}}};
}

}  // namespace trireme
