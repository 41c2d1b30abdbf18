// Descriptors, heuristics and plans of the emulated cuDNN.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/kernels/cuda/emulation/cudnn_data.h"

using emulation::DnnData;
using emulation::DnnEngine;
using emulation::DnnOperation;

struct EmulatedDnnHandle {
  cudaStream_t stream = nullptr;
};

struct EmulatedDnnDescriptor {
  std::shared_ptr<DnnData> data;
};

namespace {

using Note = cudnnBackendNumericalNote_t;

// Proposes every kind of engine that is forbidden for fp32 before the permitted ones.
std::vector<DnnEngine> tempting_engines() {
  return {{.notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
          {.notes = {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
          {.notes = {CUDNN_NUMERICAL_NOTE_FFT}},
          {.notes = {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}},
          {.notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, .builds = false},
          {.notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, .workspace_bytes = 4096},
          {.notes = {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}},
          {.workspace_bytes = std::size_t{1} << 40},
          {.workspace_bytes = 8192, .is_fallback = true}};
}

std::vector<DnnEngine>& engines() {
  static std::vector<DnnEngine> all = tempting_engines();
  return all;
}

std::size_t& version() {
  static std::size_t number = 91900;
  return number;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    default:
      return 4;
  }
}

bool is_convolution(cudnnBackendDescriptorType_t operation) {
  return operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
         operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
         operation == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
}

// Only convolutions use transforms or reduced precision.
bool suits(const DnnEngine& engine, cudnnBackendDescriptorType_t operation) {
  return is_convolution(operation) || std::all_of(engine.notes.begin(), engine.notes.end(), [](Note note) {
           return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
         });
}

void propose(DnnData& heuristics) {
  ++emulation::dnn_counts().heuristics;
  const bool fallback =
      heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  const auto& operations =
      heuristics.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  for (const DnnEngine& engine : engines()) {
    if (engine.is_fallback != fallback || !suits(engine, operations.front()->type)) continue;
    auto made = std::make_shared<DnnData>(DnnData{.type = CUDNN_BACKEND_ENGINE_DESCRIPTOR, .is_final = true});
    made->engine = engine;
    auto config =
        std::make_shared<DnnData>(DnnData{.type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, .is_final = true});
    config->parts[CUDNN_ATTR_ENGINECFG_ENGINE] = {made};
    config->parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH] =
        heuristics.parts[CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH];
    heuristics.made.push_back(config);
  }
}

const DnnEngine& engine_of(const DnnData& plan) {
  return plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->part(CUDNN_ATTR_ENGINECFG_ENGINE)->engine;
}

// True if the plan's engine can be built for its graph.
bool builds(const DnnData& plan) {
  const DnnEngine& engine = engine_of(plan);
  const auto& operations = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                               ->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
                               ->parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  const auto shortens = [](const auto& part) {
    const DnnOperation op = emulation::operation_of(*part);
    const DnnData* y = nullptr;
    if (part->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
      y = part->part(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    if (part->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
      y = part->part(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    return y != nullptr && y->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL) && op.x.type == CUDNN_DATA_FLOAT &&
           (op.y.type == CUDNN_DATA_HALF || op.y.type == CUDNN_DATA_BFLOAT16);
  };
  if (engine.is_wide && std::any_of(operations.begin(), operations.end(), shortens)) return false;
  const auto widens = [](const auto& part) {
    const DnnOperation op = emulation::operation_of(*part);
    return part->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR && op.x.type != CUDNN_DATA_FLOAT &&
           op.y.type == CUDNN_DATA_FLOAT;
  };
  if (engine.widens && std::none_of(operations.begin(), operations.end(), widens)) return false;
  const auto groups = [](const auto& part) {
    const DnnOperation op = emulation::operation_of(*part);
    return part->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR && op.x.dims[1] != op.b.dims[1];
  };
  if (!engine.groups_heads && std::any_of(operations.begin(), operations.end(), groups)) return false;
  const auto is_odd = [](const auto& part) {
    const DnnOperation op = emulation::operation_of(*part);
    return is_convolution(part->type) && (op.x.dims[1] % 8 != 0 || op.y.dims[1] % 8 != 0);
  };
  const bool has_odd = std::any_of(operations.begin(), operations.end(), is_odd);
  if ((engine.wants_eights && has_odd) || (engine.wants_odds && !has_odd)) return false;
  if (!engine.is_classic) return engine.builds;
  const DnnOperation op = emulation::operation_of(*operations.front());
  return engine.builds && operations.size() == 1 && op.x.type == op.b.type && op.x.type == op.y.type;
}

// Binds the caller's tensors to their addresses. Host values are read now.
bool bind_tensors(const DnnData& pack, std::map<std::int64_t, emulation::DnnMemory>& memory,
                  const std::vector<std::shared_ptr<const DnnData>>& operations) {
  const auto ids = pack.values.find(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  if (ids == pack.values.end()) return false;
  for (std::size_t i = 0; i < ids->second.size() / sizeof(std::int64_t); ++i) {
    memory[pack.get<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i)].data =
        pack.get<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
  }
  for (const auto& operation : operations) {
    for (const auto& [name, parts] : operation->parts) {
      const DnnData& tensor = *parts.front();
      if (tensor.type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL))
        continue;
      const auto found = memory.find(tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
      if (found == memory.end() || (found->second.data == nullptr && !found->second.values)) return false;
      if (!tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
        const auto alignment = tensor.get<std::uint64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
        if (reinterpret_cast<std::uintptr_t>(found->second.data) % alignment != 0) return false;
        continue;
      }
      if (found->second.values) continue;
      const float value = *static_cast<const float*>(found->second.data);
      found->second = {.values = std::make_shared<std::vector<double>>(1, value)};
    }
  }
  return true;
}

}  // namespace

namespace emulation {

bool DnnEngine::has(cudnnBackendNumericalNote_t note) const {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

void set_dnn_engines(std::vector<DnnEngine> wanted) {
  engines() = wanted.empty() ? tempting_engines() : std::move(wanted);
}

void set_dnn_version(std::size_t number) {
  version() = number;
}

DnnCounts& dnn_counts() {
  static DnnCounts counts;
  return counts;
}

}  // namespace emulation

std::size_t cudnnGetVersion() {
  return version();
}
const char* cudnnGetErrorString(cudnnStatus_t) {
  return "emulated status";
}
void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  std::snprintf(text, bytes, "emulated");
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  ++emulation::dnn_counts().handles;
  ++emulation::dnn_counts().live_handles;
  *handle = new EmulatedDnnHandle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  --emulation::dnn_counts().live_handles;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  *made = new EmulatedDnnDescriptor{std::make_shared<DnnData>(DnnData{.type = type})};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  DnnData& data = *descriptor->data;
  if (data.is_final || count < 1) return CUDNN_STATUS_BAD_PARAM;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* bytes = static_cast<const std::byte*>(values);
    data.values[name].assign(bytes, bytes + static_cast<std::size_t>(count) * size_of(type));
    return CUDNN_STATUS_SUCCESS;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& part = static_cast<const cudnnBackendDescriptor_t*>(values)[i]->data;
    if (!part->is_final) return CUDNN_STATUS_BAD_PARAM;
    data.parts[name].push_back(part);
  }
  return CUDNN_STATUS_SUCCESS;
}

// Returns descriptors through ones that the caller has made.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t most, std::int64_t* count,
                                       void* values) {
  const DnnData& data = *descriptor->data;
  if (!data.is_final) return CUDNN_STATUS_BAD_PARAM;
  const auto hand_out = [&](const std::vector<std::shared_ptr<const DnnData>>& all) {
    *count = static_cast<std::int64_t>(all.size());
    for (std::size_t i = 0; i < all.size() && static_cast<std::int64_t>(i) < most; ++i) {
      static_cast<cudnnBackendDescriptor_t*>(values)[i]->data = std::make_shared<DnnData>(*all[i]);
    }
    return CUDNN_STATUS_SUCCESS;
  };
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return hand_out(data.made);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      return hand_out(data.parts.at(name));
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = static_cast<std::int64_t>(data.engine.notes.size());
      std::copy_n(data.engine.notes.begin(), std::min(*count, most), static_cast<Note*>(values));
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *count = 1;
      *static_cast<std::int64_t*>(values) = static_cast<std::int64_t>(engine_of(data).workspace_bytes);
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  DnnData& data = *descriptor->data;
  if (!emulation::is_sound(data)) return CUDNN_STATUS_BAD_PARAM;
  if (data.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    if (engine_of(data).lacks_memory) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    if (!builds(data)) return CUDNN_STATUS_NOT_SUPPORTED;
  }
  if (data.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) propose(data);
  data.is_final = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t variant_pack) {
  const DnnData* config = plan->data->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto& parts =
      config->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  std::map<std::int64_t, emulation::DnnMemory> memory;
  if (!bind_tensors(*variant_pack->data, memory, parts)) return CUDNN_STATUS_BAD_PARAM;
  std::vector<DnnOperation> operations;
  for (const auto& part : parts) operations.push_back(emulation::operation_of(*part));
  const DnnEngine engine = engine_of(*plan->data);
  if (!engine.runs) {
    ++emulation::dnn_counts().refusals;
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  void* const workspace = variant_pack->data->get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  ++emulation::dnn_counts().runs;
  emulated_enqueue(handle->stream, [=] {
    if (engine.workspace_bytes > 0) std::memset(workspace, 0xFF, engine.workspace_bytes);
    emulation::play(operations, memory, engine);
  });
  return CUDNN_STATUS_SUCCESS;
}
