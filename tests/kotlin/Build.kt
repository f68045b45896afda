// What LoadBest.kt asks of Android about the device: properties of the JVM say what it is.
package android.os

object Build {
    val SOC_MODEL: String = System.getProperty("soc", "SM8650")
    val HARDWARE: String = System.getProperty("hardware", "qcom")
    val SUPPORTED_ABIS: Array<String> = arrayOf(System.getProperty("abi", "arm64-v8a"), "armeabi-v7a")

    object VERSION {
        val SDK_INT: Int = System.getProperty("sdk", "34").toInt()
    }
}
