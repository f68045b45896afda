// What LoadBest.kt asks of ExecuTorch's Android library. What a module gives is written in a file beside its program:
// numbers in a line, or nothing, and then it fails.
package org.pytorch.executorch

import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder

enum class DType { UINT8, INT8, INT32, INT64, FLOAT, DOUBLE }

class Tensor private constructor(private val values: List<Number>, private val shape: LongArray, private val type: DType) {
    fun dtype(): DType = type

    fun shape(): LongArray = shape

    val dataAsFloatArray: FloatArray
        get() = FloatArray(values.size) { values[it].toFloat() }

    val dataAsDoubleArray: DoubleArray
        get() = DoubleArray(values.size) { values[it].toDouble() }

    fun toByteArray(): ByteArray {
        val bytes = ByteBuffer.allocate(8 * values.size).order(ByteOrder.LITTLE_ENDIAN)
        values.forEach { bytes.putLong(it.toLong()) }
        return bytes.array()
    }

    companion object {
        fun numel(shape: LongArray): Long = shape.fold(1L) { count, extent -> count * extent }

        fun fromBlob(data: FloatArray, shape: LongArray) = Tensor(data.toList(), shape, DType.FLOAT)

        fun fromBlob(data: DoubleArray, shape: LongArray) = Tensor(data.toList(), shape, DType.DOUBLE)

        fun fromBlob(data: LongArray, shape: LongArray) = Tensor(data.toList(), shape, DType.INT64)

        fun fromBlob(data: IntArray, shape: LongArray) = Tensor(data.toList(), shape, DType.INT32)

        fun fromBlob(data: ByteArray, shape: LongArray) = Tensor(data.toList(), shape, DType.INT8)

        fun fromBlobUnsigned(data: ByteArray, shape: LongArray) = Tensor(data.toList(), shape, DType.UINT8)
    }
}

class EValue private constructor(private val tensor: Tensor) {
    fun toTensor(): Tensor = tensor

    companion object {
        fun from(tensor: Tensor) = EValue(tensor)
    }
}

object ExecuTorchRuntime {
    fun getRegisteredBackends(): Array<String> = System.getProperty("backends", "").split(",").toTypedArray()
}

class Module private constructor(private val path: String) {
    fun loadMethod(name: String) {
        if (name != "forward") throw RuntimeException("there is no method $name")
        if (!File("$path.gives").exists()) throw RuntimeException("it cannot be loaded")
    }

    fun forward(vararg inputs: EValue): Array<EValue> {
        val first = inputs.first().toTensor().dataAsFloatArray.joinToString(" ")
        println("forward ${File(path).name} $first")
        val numbers = File("$path.gives").readText().trim().split(" ").filter { it.isNotEmpty() }.map { it.toFloat() }
        if (numbers.isEmpty()) throw RuntimeException("it failed")
        return arrayOf(EValue.from(Tensor.fromBlob(numbers.toFloatArray(), longArrayOf(1, numbers.size.toLong()))))
    }

    fun destroy() = println("destroy ${File(path).name}")

    companion object {
        fun load(path: String): Module = Module(path)
    }
}
