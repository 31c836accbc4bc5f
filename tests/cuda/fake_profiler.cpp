// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A profiler as NVTX knows them: a library that NVTX_INJECTION64_PATH names. It logs what it gets,
// "domain <name>", "> <name>" and "<", for the test that also opens it.
#include <nvtx3/nvToolsExt.h>

#include <deque>
#include <mutex>
#include <string>

namespace {

std::mutex mutex;
std::string log;

void note(const std::string& line) {
  const std::lock_guard lock(mutex);
  log += line + "\n";
}

nvtxDomainHandle_t create_domain(const char* name) {
  note(std::string("domain ") + name);
  static int domain = 0;
  return reinterpret_cast<nvtxDomainHandle_t>(&domain);
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
  // It stays until the process ends, as with a profiler.
  static std::deque<std::string> strings;
  const std::lock_guard lock(mutex);
  return reinterpret_cast<nvtxStringHandle_t>(&strings.emplace_back(text));
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* range) {
  note("> " + *reinterpret_cast<const std::string*>(range->message.registered));
  return 0;
}
int pop(nvtxDomainHandle_t) {
  note("<");
  return 0;
}

template <typename Function>
void set(NvtxFunctionTable table, unsigned size, NvtxCallbackIdCore2 which, Function function) {
  if (static_cast<unsigned>(which) < size) {
    *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const char* fake_profiler_log() {
  return log.c_str();
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t export_table) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr) return 0;
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (!callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, &register_string);
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}
