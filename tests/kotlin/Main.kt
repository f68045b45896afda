// Opens a bundle with LoadBest.kt: BUNDLE PLATFORM verify|trust, or unpacks an app's assets first: unpack APP NAME.
import android.content.Context
import crossbackend.BundleException
import crossbackend.loadBest
import crossbackend.unpackAssets
import java.io.File
import kotlin.system.exitProcess

fun main(arguments: Array<String>) {
    if (arguments[0] == "unpack") {
        println("unpacked ${unpackAssets(Context(File(arguments[1])), arguments[2])}")
        return
    }
    try {
        val best = loadBest(File(arguments[0]), arguments[1], arguments[2] == "verify")
        best.rejected.forEach { println("rejected $it") }
        if (arguments.size > 3) println("why ${best.why}")
        println("opened ${best.artifact.getString("name")}")
    } catch (error: BundleException) {
        println("error ${error.message}")
        exitProcess(1)
    }
}
