// Recorded work of the emulation: the participating streams, their work, and the marks by which they wait for
// each other.
#include <cuda_runtime.h>

#include <algorithm>

#include "tests/kernels/cuda/emulation/emulation.h"

namespace {

// A card refuses to end a recording while a stream has work that the first stream does not wait for.
bool is_joined(const EmulatedRecording& recording, cudaStream_t forked) {
  using Kind = EmulatedRecording::Kind;
  const auto last = std::find_if(recording.items.rbegin(), recording.items.rend(),
                                 [&](const auto& item) { return item.stream == forked; });
  return last->kind == Kind::kRecordMark &&
         std::any_of(recording.items.begin(), recording.items.end(), [&](const auto& item) {
           return item.stream == nullptr && item.kind == Kind::kAwaitMark && item.mark == last->mark;
         });
}

void play(const EmulatedRecording& recording, cudaStream_t origin) {
  std::vector<std::shared_ptr<emulation::StreamMark>> marks(recording.num_marks);
  for (auto& mark : marks) mark = std::make_shared<emulation::StreamMark>();
  for (const EmulatedRecording::Item& item : recording.items) {
    const cudaStream_t stream = item.stream == nullptr ? origin : item.stream;
    switch (item.kind) {
      case EmulatedRecording::Kind::kWork:
        emulated_enqueue(stream, item.work);
        break;
      case EmulatedRecording::Kind::kRecordMark:
        emulated_enqueue(stream, [mark = marks[item.mark]] { mark->set(); });
        break;
      case EmulatedRecording::Kind::kAwaitMark:
        emulated_enqueue(stream, [mark = marks[item.mark]] { mark->wait(); });
        break;
    }
  }
}

}  // namespace

int& emulated_streams_recorded() {
  thread_local int count = 0;
  return count;
}

// Adds the stream to the recording, unless it is part of it already.
cudaError_t emulated_await_captured(cudaStream_t stream, const CUevent_st& event) {
  const std::shared_ptr<EmulatedRecording> recording = event.recording.lock();
  if (!recording || stream == nullptr || (stream->recording && stream->recording != recording)) {
    return cudaErrorCapturedEvent;
  }
  if (!stream->recording) {
    stream->recording = recording;
    recording->forked.push_back(stream);
  }
  EmulatedRecording::Item& item = recording->add(stream);
  item.kind = EmulatedRecording::Kind::kAwaitMark;
  item.mark = event.recorded_mark;
  return cudaSuccess;
}

cudaError_t emulated_record_captured(cudaStream_t stream, CUevent_st& event) {
  EmulatedRecording& recording = *stream->recording;
  event.recording = stream->recording;
  event.recorded_mark = recording.num_marks++;
  EmulatedRecording::Item& item = recording.add(stream);
  item.kind = EmulatedRecording::Kind::kRecordMark;
  item.mark = event.recorded_mark;
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->recording) return cudaErrorStreamCaptureUnsupported;
  stream->recording = std::make_shared<EmulatedRecording>();
  stream->recording->origin = stream;
  ++emulated_streams_recorded();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->recording || stream->recording->origin != stream) return cudaErrorStreamCaptureUnsupported;
  const std::shared_ptr<EmulatedRecording> recording = std::exchange(stream->recording, nullptr);
  --emulated_streams_recorded();
  bool joined = true;
  for (const cudaStream_t forked : recording->forked) {
    forked->recording = nullptr;
    joined = joined && is_joined(*recording, forked);
  }
  if (!joined) return cudaErrorStreamCaptureUnsupported;
  *graph = new CUgraph_st{recording};
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->recording};
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  ++emulation::counts().graphs;
  play(*exec->recording, stream);
  return cudaSuccess;
}
