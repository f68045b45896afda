// What LoadBest.kt asks of Android: an app's files, and the assets that came with it.
package android.content

import java.io.File
import java.io.InputStream

class Assets(private val root: File) {
    fun open(path: String): InputStream = File(root, path).inputStream()

    fun list(path: String): Array<String>? = File(root, path).list() ?: emptyArray()
}

class Context(root: File) {
    val assets = Assets(File(root, "assets"))
    val filesDir = File(root, "files")
}
