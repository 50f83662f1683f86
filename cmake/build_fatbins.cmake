# cmake -DNVCC= -DKERNELS= -DOUT= -DARCHITECTURES=75,80 -P: compiles the kernels to OUT/*.fatbin and describes them in
# OUT/manifest.json. The source hash is that of a line "name sha256" a file, by name, as src/cuda/embedded_sources.cpp has it.
cmake_minimum_required(VERSION 3.25)
string(REPLACE "," ";" architectures "${ARCHITECTURES}")
set(flags -std=c++17 --fmad=false -O3 -Werror all-warnings)
# Of the architectures, those that this nvcc knows: NVRTC serves the others.
execute_process(COMMAND ${NVCC} --list-gpu-code OUTPUT_VARIABLE known RESULT_VARIABLE status ERROR_QUIET)
if(status EQUAL 0)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  set(wanted ${architectures})
  set(architectures "")
  foreach(architecture IN LISTS wanted)
    if(architecture IN_LIST known)
      list(APPEND architectures ${architecture})
    else()
      message(STATUS "${NVCC} does not know sm_${architecture}: no prebuilt CUDA kernels for it")
    endif()
  endforeach()
endif()
file(MAKE_DIRECTORY ${OUT})
set(images "")
# build(FILE LEAST PTX KERNEL...): a fatbin of the file's kernels for the architectures from the least one on, and where
# PTX is ON with PTX of that one.
function(build file least ptx)
  set(targets "")
  set(names "")
  if(ptx)
    set(targets -gencode arch=compute_${least},code=compute_${least})
    set(names "\"compute_${least}\", ")
  endif()
  foreach(architecture IN LISTS architectures)
    if(architecture GREATER_EQUAL least)
      list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
      string(APPEND names "\"sm_${architecture}\", ")
    endif()
  endforeach()
  string(REGEX REPLACE ", $" "" names "${names}")
  file(WRITE ${OUT}/program.cu "#include \"compose.cu\"\n#include \"${file}.cu\"\n")
  execute_process(COMMAND ${NVCC} ${flags} --threads 0 -I ${KERNELS} ${targets} -fatbin -o ${OUT}/${file}.fatbin ${OUT}/program.cu
                  RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${NVCC} does not compile the CUDA kernels; -DMMAEMU_NVCC=OFF builds without prebuilt ones")
  endif()
  file(REMOVE ${OUT}/program.cu)
  file(SHA256 ${OUT}/${file}.fatbin hash)
  foreach(kernel IN LISTS ARGN)
    string(APPEND images
           "  {\"kernel\": \"${kernel}\", \"file\": \"${file}.fatbin\", \"sha256\": \"${hash}\", \"targets\": [${names}]},\n")
  endforeach()
  set(images "${images}" PARENT_SCOPE)
endfunction()
build(portable 75 ON v1 h1)
build(fast 80 ON v4 h4)
build(gated 80 OFF tc3 v9)
string(REGEX REPLACE ",\n$" "\n" images "${images}")

file(GLOB sources RELATIVE ${KERNELS} ${KERNELS}/*.cu ${KERNELS}/*.h)
list(SORT sources)
set(lines "")
foreach(source IN LISTS sources)
  file(SHA256 ${KERNELS}/${source} hash)
  string(APPEND lines "${source} ${hash}\n")
endforeach()
string(SHA256 source_hash "${lines}")
string(REPLACE ";" " " flag_text "${flags}")
file(WRITE ${OUT}/manifest.json "{
 \"source_sha256\": \"${source_hash}\",
 \"flags\": \"${flag_text}\",
 \"images\": [
${images} ]
}
")
