# Links a program with the ExecuTorch that find_package found, and with every kernel and delegate that it has.
# Three kinds: the Python package seen by CMake >= 3.28 (namespaced targets), by an older one (variables only), and a
# build of one's own (bare targets). Kernels and delegates register themselves, so the linker must not drop them.

function(link_executorch program)
  if(TARGET executorch::runtime)
    target_link_libraries(${program} PRIVATE ${EXECUTORCH_LIBRARIES} ${EXECUTORCH_QUANTIZED_KERNELS_LIBRARY})
  elseif(TARGET executorch)
    _link_own_build(${program})
  else()
    _link_package_by_path(${program})
  endif()
endfunction()

function(_link_package_by_path program)
  target_include_directories(${program} SYSTEM PRIVATE ${EXECUTORCH_INCLUDE_DIRS})
  target_compile_definitions(${program} PRIVATE ${EXECUTORCH_COMPILE_DEFINITIONS})
  target_link_libraries(${program} PRIVATE ${EXECUTORCH_LIBRARIES} ${EXECUTORCH_QUANTIZED_KERNELS_LIBRARY})
  # Shipped in executorch 1.5.1, but absent from its variable.
  set(qnn "${EXECUTORCH_RUNTIME_LIBRARY_DIR}/libexecutorch_backend_qnn.so")
  if(EXISTS "${qnn}")
    target_link_libraries(${program} PRIVATE "-Wl,--push-state,--no-as-needed,${qnn},--pop-state")
  endif()
  set_target_properties(${program} PROPERTIES
    BUILD_RPATH "${EXECUTORCH_RUNTIME_LIBRARY_DIR}" INSTALL_RPATH "${EXECUTORCH_RUNTIME_LIBRARY_DIR}")
endfunction()

function(_link_own_build program)
  # One set of kernels: two would register the same operators twice, which ends the process.
  if(TARGET optimized_native_cpu_ops_lib)
    set(kernels optimized_native_cpu_ops_lib)
  else()
    set(kernels portable_ops_lib)
  endif()
  foreach(library ${kernels} quantized_ops_lib coremldelegate mlxdelegate mpsdelegate openvino_backend
          qnn_executorch_backend vulkan_backend xnnpack_backend)
    if(TARGET ${library})
      message(STATUS "runner: links ${library}")
      _keep_whole(${program} ${library})
      target_link_libraries(${program} PRIVATE ${library})
    endif()
  endforeach()
  foreach(library extension_data_loader extension_tensor extension_threadpool executorch)
    if(TARGET ${library})
      target_link_libraries(${program} PRIVATE ${library})
    endif()
  endforeach()
  if(TARGET extension_threadpool)
    target_compile_definitions(${program} PRIVATE ET_USE_THREADPOOL)
  endif()
endfunction()

# Newer builds put these options on their targets; older ones leave them to the user.
function(_keep_whole program library)
  get_target_property(type ${library} TYPE)
  get_target_property(options ${library} INTERFACE_LINK_OPTIONS)
  if(options OR NOT type STREQUAL "STATIC_LIBRARY")
    return()
  endif()
  if(APPLE)
    target_link_options(${program} PRIVATE "SHELL:LINKER:-force_load,$<TARGET_FILE:${library}>")
  elseif(MSVC)
    target_link_options(${program} PRIVATE "SHELL:LINKER:/WHOLEARCHIVE:$<TARGET_FILE:${library}>")
  else()
    target_link_options(${program} PRIVATE
      "SHELL:LINKER:--whole-archive $<TARGET_FILE:${library}> LINKER:--no-whole-archive")
  endif()
endfunction()
